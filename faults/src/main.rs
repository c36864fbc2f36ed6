//! `bucksaw-faults`: injects faults into a cluster of real processes and reports the outcome.
#![expect(clippy::print_stdout, reason = "prints reports")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bucksaw_faults::{
    DamageOptions, JoiningOptions, KillOptions, MemoryOptions, Report, RunOptions, ScalingOptions, SlowOptions,
    UpgradeOptions, WipeOptions, damage, kill, limit_memory, measure_join, measure_slow, run, scale, upgrade, wipe,
};
use clap::{Args, Parser, Subcommand};

/// Injects faults into clusters of real processes under load, and checks that no line is lost or duplicated
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// Path of the bucksaw program
    #[arg(long, default_value = "target/release/bucksaw", global = true)]
    bucksaw: PathBuf,
    /// Directory for tables and pictures
    #[arg(long, default_value = "target/faults", global = true)]
    out: PathBuf,
    #[command(subcommand)]
    command: FaultsCommand,
}

#[derive(Debug, Subcommand)]
enum FaultsCommand {
    /// Apply faults one at a time and in pairs, and check that no line is lost or duplicated
    Run(RunArgs),
    /// Let two nodes join under load, and measure how soon they take their share
    Joining {
        /// Lines per second of each forwarder
        #[arg(long, default_value_t = 2_000)]
        rate: usize,
        /// Maximum age of forwarder connections in seconds; 0 is unlimited
        #[arg(long, default_value_t = 0)]
        reconnect: u64,
        /// Bytes per second from which a node is overloaded; the default of the program if omitted
        #[arg(long)]
        busy: Option<String>,
    },
    /// Pause a node, let one refuse clients, and measure the rates of clients of the other nodes
    Slow {
        /// Lines per second of each forwarder
        #[arg(long, default_value_t = 4_000)]
        rate: usize,
        /// Seconds of each phase
        #[arg(long, default_value_t = 10)]
        seconds: u64,
    },
    /// Replace the disk of a store by an empty one, and measure the time until all records are re-replicated
    Wiped {
        /// Megabytes of text stored before
        #[arg(long, default_value_t = 1_000)]
        megabytes: usize,
        /// Number of measurements
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
    /// Run everything that takes memory on nodes with a memory limit, and check that none is killed and nothing is
    /// lost; needs root
    Memory(MemoryLimitArgs),
    /// Upgrade all nodes from one version to another and back, one at a time under load
    Upgrade(UpgradeArgs),
    /// Kill nodes at random moments, and check that no line is lost or duplicated
    Kill(KillArgs),
    /// Damage one file per data directory, and check that every loss is reported
    Damage(DamageArgs),
    /// Measure one, two and three pairs of an ingest node and a store, each process limited to a fraction of a core
    Scaling {
        /// CPU limit of each ingest node in percent of a core
        #[arg(long, default_value_t = 5)]
        ingest_percent: u64,
        /// CPU limit of each store in percent of a core
        #[arg(long, default_value_t = 10)]
        store_percent: u64,
        /// Seconds before each measurement
        #[arg(long, default_value_t = 10)]
        warm: u64,
        /// Seconds of each measurement
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Maximum number of pairs
        #[arg(long, default_value_t = 3)]
        pairs: usize,
        /// Measurements of each number of pairs
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
}

#[derive(Debug, Args)]
struct RunArgs {
    /// Directory for the data of the nodes, which is not removed; a temporary directory if omitted
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Seed of the schedule
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Apply only short faults that need no root
    #[arg(long)]
    small: bool,
    /// Lines per second of each forwarder
    #[arg(long, default_value_t = 150)]
    rate: usize,
    /// Seconds of each fault
    #[arg(long, default_value_t = 8)]
    hold: u64,
    /// Seconds between faults
    #[arg(long, default_value_t = 5)]
    rest: u64,
    /// Apply only faults with one of these in their names
    #[arg(long)]
    only: Vec<String>,
    /// Expect a line that is never sent, to check that the loss is reported
    #[arg(long)]
    lose_a_line: bool,
}

#[derive(Debug, Args)]
struct KillArgs {
    /// Number of rounds
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// Number of nodes; with several, the replication factor is 2
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// Seed of the victims and times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rounds between controls, in which an answer without a line and one with a line twice must be detected
    #[arg(long, default_value_t = 10)]
    control_every: usize,
    /// Expect a line that is never sent, to check that the loss is reported
    #[arg(long)]
    lose_a_line: bool,
}

#[derive(Debug, Args)]
struct DamageArgs {
    /// Number of damaged directories
    #[arg(long, default_value_t = 1_000)]
    rounds: usize,
    /// Seed of the files and corruptions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Damage only files of these kinds, such as queue/*.pending
    #[arg(long)]
    only: Vec<String>,
    /// Directory for copies of directories with a problem
    #[arg(long)]
    keep: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct MemoryLimitArgs {
    /// Memory limit of each node in MiB
    #[arg(long, default_value_t = 128)]
    limit: u64,
    /// Seconds of load
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// 1, or 3 with replication factor 2, of which one loses its disk
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// Connections to each listener that hold an unfinished message
    #[arg(long, default_value_t = 200)]
    connections: usize,
    /// Run only clients of this kind: batches, lines, large, stated, bombs, questions, contexts, followers, stalled, loki,
    /// bulk, otlp, syslog, gelf, fluent, holders or sender-holders
    #[arg(long)]
    only: Vec<String>,
    /// Additional arguments of the nodes
    #[arg(last = true)]
    more: Vec<String>,
}

#[derive(Debug, Args)]
struct UpgradeArgs {
    /// Program before the upgrade
    #[arg(long)]
    from: PathBuf,
    /// Program after the upgrade; that of --bucksaw if omitted
    #[arg(long)]
    to: Option<PathBuf>,
    /// Directory for the data of the nodes, which is not removed; a temporary directory if omitted
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Lines per second of each forwarder
    #[arg(long, default_value_t = 150)]
    rate: usize,
    /// Seconds between nodes
    #[arg(long, default_value_t = 5)]
    rest: u64,
    /// Upgrade only, without the downgrade
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
            let report = damage(&DamageOptions { bucksaw, rounds, seed, only, keep })?;
            print!("{report}");
            return Ok(if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
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

#[expect(clippy::disallowed_methods, reason = "writes tables")]
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
