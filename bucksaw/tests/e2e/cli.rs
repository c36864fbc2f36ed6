//! The commands against a real node: output, exit codes and files.

mod demo;
mod letters;
mod load;
mod open_listeners;
mod plan;
mod query;
mod repair;
mod ship;
mod silent;
mod stop;
mod verify;
mod watch;
