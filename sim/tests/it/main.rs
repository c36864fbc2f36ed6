//! Seeds that must pass, runs that must be equal, bugs that must be found.

mod determinism;
mod injected_bugs;
mod seeds;
