//! Simulated doors.
