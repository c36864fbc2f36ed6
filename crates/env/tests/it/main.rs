//! The doors from outside: what every file system must do, and what the simulated doors do beyond that.

mod contract;
mod faults;
mod network;
mod power;
mod real_net;
mod world;
