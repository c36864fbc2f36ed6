//! The agent by its public door: real sockets, to real listeners, mostly.
#![cfg(test)]

mod redirects;
mod node;
mod ship;
mod faulty_nodes;
