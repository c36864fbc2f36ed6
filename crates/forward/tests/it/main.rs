//! The agent by its public interface: real sockets, to real listeners, mostly.
#![cfg(test)]

mod faulty_nodes;
mod node;
mod redirects;
mod reports;
mod ship;
