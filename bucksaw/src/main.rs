//! The command line: flags, configuration, printing and exit codes. What the commands do lives in the crates below.
//!
//! One file per command; [`cli`] holds them together, [`layers`] puts flags, environment, file and defaults in order,
//! [`failure`] is the one place where an error becomes a line on standard error and an [`exit::Exit`].
//! Standard output is for data, standard error for everything that is said about it.

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
