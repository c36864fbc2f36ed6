//! The environment by its public interface: what every implementation guarantees, and what the simulated one adds.

mod contract;
mod faults;
mod network;
mod power;
mod real_net;
mod world;
