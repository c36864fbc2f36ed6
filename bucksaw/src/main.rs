//! The command line: flags, configuration, printing and exit codes. The work is done by the library crates.
//!
//! Each command has a file. [`cli`] parses and runs them, [`layers`] merges flags, environment, file and defaults, and
//! [`failure`] turns an error into a line on standard error and an [`exit::Exit`]. Standard output is for data only.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the program itself runs on a real machine")]

mod answer;
mod args;
mod argument_error;
mod bind;
mod certs;
mod cli;
mod completions;
mod config;
mod context;
mod encryption;
mod erase;
mod exit;
mod export;
mod expression;
mod failure;
mod fields;
mod forget;
mod forward;
mod generate;
mod histogram;
mod import;
mod interrupt;
mod labels;
mod layers;
mod log;
mod man;
mod node_client;
mod notice;
mod one_line;
mod open_listeners;
mod plan;
mod print;
mod progress;
mod query;
mod serve;
mod small_files;
mod status;
mod summary;
mod tail;
mod terminal;
mod text_table;
mod token;
mod values;
mod variable;
mod verify;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os()).into()
}
