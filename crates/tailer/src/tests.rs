//! Scenarios on the simulated file system, and the same ones on a real one.

mod cases;
mod machine;
mod random;
mod restarts;
mod status;
