//! The doors from outside: what every file system must do, and what the simulated one does beyond that.

mod contract;
mod faults;
mod power;
mod real_net;
