//! The commands against a real node: output, exit codes and files.

mod query;
mod repair;
mod ship;
mod stop;
mod verify;
mod watch;
