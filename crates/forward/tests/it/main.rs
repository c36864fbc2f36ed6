//! The agent by its public door: real sockets, to real listeners, mostly.
#![cfg(test)]

mod elsewhere;
mod node;
mod ship;
mod trouble;
