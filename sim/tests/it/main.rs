//! Seeds that must pass, runs that must be the same, mutations that must be found.

mod mutations;
mod same;
mod seeds;
