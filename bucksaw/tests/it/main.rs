//! The program as a process.
