//! `bucksaw-faults`: lets things go wrong in a cluster of real processes, and says what came of it.
#![expect(clippy::print_stdout, reason = "this is what it is for")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bucksaw_faults::{
    DamageOptions, JoiningOptions, KillOptions, MemoryOptions, Report, RunOptions, ScalingOptions, SlowOptions,
    UpgradeOptions, WipeOptions, damage, kill, limit_memory, measure_join, measure_slow, run, scale, upgrade, wipe,
};
use clap::{Args, Parser, Subcommand};

/// A cluster of real processes, under load, to which bad things happen
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// The program
    #[arg(long, default_value = "target/release/bucksaw", global = true)]
    bucksaw: PathBuf,
    /// Where tables and pictures are written
    #[arg(long, default_value = "target/faults", global = true)]
    out: PathBuf,
    #[command(subcommand)]
    command: FaultsCommand,
}

#[derive(Debug, Subcommand)]
enum FaultsCommand {
    /// Let things go wrong one after the other, and see that nothing is lost or doubled
    Run(RunArgs),
    /// Let two nodes join under load, and see how soon they take their share
    Joining {
        /// Lines a second of each forwarder
        #[arg(long, default_value_t = 2_000)]
        rate: usize,
        /// Seconds that connections of forwarders last; for ever when left out
        #[arg(long, default_value_t = 0)]
        reconnect: u64,
        /// From how many bytes a second on a node says that it is busy; its usual limit when left out
        #[arg(long)]
        busy: Option<String>,
    },
    /// Pause a node and let one refuse, and see that those who write to others are as fast as before
    Slow {
        /// Lines a second of each forwarder
        #[arg(long, default_value_t = 4_000)]
        rate: usize,
        /// Seconds of each phase
        #[arg(long, default_value_t = 10)]
        seconds: u64,
    },
    /// Replace a store's disk by an empty one, and see how soon every record is on two stores again
    Wiped {
        /// Megabytes of text that are stored before
        #[arg(long, default_value_t = 1_000)]
        megabytes: usize,
        /// How often it is measured
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
    /// Give nodes little memory and everything that takes some, and see that none is killed and nothing is lost; needs root
    Memory(MemoryLimitArgs),
    /// Bring all nodes from one version of the program to another and back, one by one under load
    Upgrade(UpgradeArgs),
    /// Kill nodes at random moments, round after round, and see that nothing is lost or doubled
    Kill(KillArgs),
    /// Damage one file of a data directory, thousands of times, and see that what is lost is told
    Damage(DamageArgs),
    /// Measure one, two and three pairs of an ingest node and a store, each process with a part of a core
    Scaling {
        /// Hundredths of a core for each ingest node
        #[arg(long, default_value_t = 5)]
        ingest_percent: u64,
        /// Hundredths of a core for each store
        #[arg(long, default_value_t = 10)]
        store_percent: u64,
        /// Seconds before each measurement
        #[arg(long, default_value_t = 10)]
        warm: u64,
        /// Seconds of each measurement
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// The most pairs
        #[arg(long, default_value_t = 3)]
        pairs: usize,
        /// How often each number of pairs is measured
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Where the nodes keep their files, and these stay; a temporary directory when left out
    #[arg(long)]
    dir: Option<PathBuf>,
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

#[derive(Debug, Args)]
struct KillArgs {
    /// How many rounds
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// How many nodes; with more than one each record is on two
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// Decides who is killed, and when
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rounds from one control to the next: an answer without a line, and one with a line twice, which have to be told
    #[arg(long, default_value_t = 10)]
    control_every: usize,
    /// Acknowledge a line that is never sent, to see that it is told
    #[arg(long)]
    lose_a_line: bool,
}

#[derive(Debug, Args)]
struct DamageArgs {
    /// How many directories are damaged
    #[arg(long, default_value_t = 1_000)]
    rounds: usize,
    /// Decides which file is damaged, and how
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only files of these kinds, such as queue/*.pending
    #[arg(long)]
    only: Vec<String>,
    /// Where directories stay with which something is wrong
    #[arg(long)]
    keep: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct MemoryLimitArgs {
    /// Megabytes (of 1024 KB) that each node may have
    #[arg(long, default_value_t = 128)]
    limit: u64,
    /// Seconds that the load lasts
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// 1, or 3 that keep each record twice, of which one loses its disk
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// Connections that hold an unfinished line
    #[arg(long, default_value_t = 200)]
    connections: usize,
    /// Only clients of this kind: batches, lines, large, stated, bombs, questions, contexts, followers, stalled or holders
    #[arg(long)]
    only: Vec<String>,
    /// Further arguments of the nodes
    #[arg(last = true)]
    more: Vec<String>,
}

#[derive(Debug, Args)]
struct UpgradeArgs {
    /// The program that runs at first, and in the end
    #[arg(long)]
    from: PathBuf,
    /// The program that takes its place; that of --bucksaw when left out
    #[arg(long)]
    to: Option<PathBuf>,
    /// Where the nodes keep their files, and these stay; a temporary directory when left out
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Lines a second of each forwarder
    #[arg(long, default_value_t = 150)]
    rate: usize,
    /// Seconds between two nodes
    #[arg(long, default_value_t = 5)]
    rest: u64,
    /// Only the way up
    #[arg(long)]
    stay: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let bucksaw = std::path::absolute(&cli.bucksaw)?;
    let (name, table) = match cli.command {
        FaultsCommand::Run(args) => return faults(args, bucksaw, cli.out),
        FaultsCommand::Upgrade(args) => return versions(args, bucksaw),
        FaultsCommand::Kill(KillArgs { rounds, nodes, seed, control_every, lose_a_line }) => {
            let killed = kill(&KillOptions { bucksaw, rounds, nodes, seed, control_every, lose_a_line })?;
            print!("{killed}");
            return Ok(if killed.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        FaultsCommand::Damage(DamageArgs { rounds, seed, only, keep }) => {
            let toll = damage(&DamageOptions { bucksaw, rounds, seed, only, keep })?;
            print!("{toll}");
            return Ok(if toll.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        FaultsCommand::Memory(MemoryLimitArgs { limit, seconds, nodes, connections, only, more }) => {
            let (limit, time) = (limit << 20, Duration::from_secs(seconds));
            (
                "memory.csv",
                limit_memory(&MemoryOptions { bucksaw, limit, time, nodes, connections, only, extra_arguments: more })?,
            )
        }
        FaultsCommand::Joining { rate, reconnect, busy } => {
            let name = if busy.is_some() { "joining-busy.csv" } else { "joining.csv" };
            (name, measure_join(&JoiningOptions { bucksaw, rate, reconnect: Duration::from_secs(reconnect), busy })?)
        }
        FaultsCommand::Slow { rate, seconds } => {
            ("slow.csv", measure_slow(&SlowOptions { bucksaw, rate, time: Duration::from_secs(seconds) })?)
        }
        FaultsCommand::Wiped { megabytes, rounds } => {
            ("wiped.csv", wipe(&WipeOptions { bucksaw, bytes: megabytes * 1_000_000, rounds })?)
        }
        FaultsCommand::Scaling { ingest_percent, store_percent, warm, seconds, pairs, rounds } => {
            let (warm, time) = (Duration::from_secs(warm), Duration::from_secs(seconds));
            (
                "scaling.csv",
                scale(&ScalingOptions { bucksaw, ingest_percent, store_percent, warm, time, pairs, rounds })?,
            )
        }
    };
    print!("{table}");
    write(&cli.out, name, &table)?;
    Ok(ExitCode::SUCCESS)
}

fn faults(args: RunArgs, bucksaw: PathBuf, out: PathBuf) -> anyhow::Result<ExitCode> {
    let options = RunOptions {
        dir: args.dir,
        out: Some(out),
        seed: args.seed,
        small: args.small,
        rate: args.rate,
        hold: Duration::from_secs(args.hold),
        rest: Duration::from_secs(args.rest),
        only: args.only,
        lose_a_line: args.lose_a_line,
        ..RunOptions::new(bucksaw)
    };
    Ok(show(&run(&options)?))
}

fn versions(args: UpgradeArgs, bucksaw: PathBuf) -> anyhow::Result<ExitCode> {
    let (from, to) = (std::path::absolute(&args.from)?, args.to.map(std::path::absolute).transpose()?);
    let to = to.unwrap_or(bucksaw);
    let rest = Duration::from_secs(args.rest);
    let report = upgrade(&UpgradeOptions { from, to, dir: args.dir, rate: args.rate, rest, back: !args.stay })?;
    Ok(show(&report))
}

fn show(report: &Report) -> ExitCode {
    print!("{report}");
    if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[expect(clippy::disallowed_methods, reason = "tables are real files")]
fn write(dir: &Path, name: &str, table: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)?;
    Ok(std::fs::write(dir.join(name), table)?)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}
