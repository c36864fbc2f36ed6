//! The commands against a real node: what they print, how they exit, what they leave behind.

mod query;
mod repair;
mod ship;
mod stop;
mod verify;
mod watch;
