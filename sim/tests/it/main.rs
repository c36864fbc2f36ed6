//! Seeds that must pass, runs that must be the same, mutations that must be found.

mod injected_bugs;
mod determinism;
mod seeds;
