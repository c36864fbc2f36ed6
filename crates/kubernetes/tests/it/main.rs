//! The watch of pods against a stub of the API server, over real HTTP.
#![cfg(test)]

mod faults;
mod tls;
mod watched;
mod watching;
