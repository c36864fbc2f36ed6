//! `bucksaw-faults`: lets things go wrong in a cluster of real processes, and says what came of it.
#![expect(clippy::print_stdout, reason = "this is what it is for")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bucksaw_faults::{Options, run};
use clap::Parser;

/// A cluster of real processes, under load, to which bad things happen
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// The program
    #[arg(long, default_value = "target/release/bucksaw")]
    bucksaw: PathBuf,
    /// Where the nodes keep their files, and these stay; a temporary directory when left out
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where tables and picture are written
    #[arg(long, default_value = "target/faults")]
    out: PathBuf,
    /// Decides what happens, and in which order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only what needs no root and is over soon
    #[arg(long)]
    small: bool,
    /// Lines a second of each forwarder
    #[arg(long, default_value_t = 150)]
    rate: usize,
    /// Seconds that a fault lasts
    #[arg(long, default_value_t = 8)]
    hold: u64,
    /// Seconds between two
    #[arg(long, default_value_t = 5)]
    rest: u64,
    /// Only faults with one of these in their names
    #[arg(long)]
    only: Vec<String>,
    /// Acknowledge a line that is never sent, to see that it is told
    #[arg(long)]
    lose_a_line: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let options = Options {
        dir: cli.dir,
        out: Some(cli.out),
        seed: cli.seed,
        small: cli.small,
        rate: cli.rate,
        hold: Duration::from_secs(cli.hold),
        rest: Duration::from_secs(cli.rest),
        only: cli.only,
        lose_a_line: cli.lose_a_line,
        ..Options::new(std::path::absolute(cli.bucksaw)?)
    };
    let report = run(&options)?;
    print!("{report}");
    Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}
