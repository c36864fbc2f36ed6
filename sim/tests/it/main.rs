//! Seeds that must pass, runs that must be the same, mutations that must be found.

mod determinism;
mod injected_bugs;
mod seeds;
