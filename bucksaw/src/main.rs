//! The command line: flags, configuration, printing and exit codes. The work is done by the library crates.
//!
//! Each command has a file. [`cli`] parses and runs them, [`layers`] merges flags, environment, file and defaults, and
//! [`failure`] turns an error into a line on standard error and an [`exit::Exit`]. Standard output is for data only.

mod answer_stats;
mod answer_stream;
mod args;
mod cli;
mod completions;
mod config;
mod exit;
mod expression;
mod failure;
mod forget;
mod forward;
mod generate;
mod interrupt;
mod layers;
mod log;
mod man;
mod node_client;
mod print;
mod query;
mod serve;
mod small_files;
mod status;
mod tail;
mod text_table;
mod values;
mod verify;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(std::env::args_os()).into()
}
