//! The listeners by their public interface: real sockets, a real queue on a simulated disk.
#![cfg(test)]

mod clients;
mod fluent;
mod framed;
mod full;
mod lines;
mod node;
mod redirects;
mod senders;
mod stop;
