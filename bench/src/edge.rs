//! `edge`: what it costs a machine to ship the lines of its files, while a node acknowledges them.
//!
//! Writers append lines in the form of Docker's `json-file`, one write per line, and the agent decodes them. The CPU is that of the
//! agent alone, in all its threads; that of the node is a figure of its own.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use bucksaw_faults::wait;
use bucksaw_record::Millis;
use bucksaw_record::time::format_rfc3339;
use clap::Args;

use crate::context::{BenchContext, Size};
use crate::node::BenchNode;
use crate::results::{BenchRun, Figure, figure};
use crate::{machine, process};

/// The maximum time until the node has all lines.
const SHIPPED_MAX: Duration = Duration::from_secs(300);

/// How often writers wake up.
const WRITE_INTERVAL: Duration = Duration::from_millis(1);

/// The time between the start of an agent and the first measured line.
const WARM_UP: Duration = Duration::from_secs(3);

/// Measure the cost of shipping the lines of files
#[derive(Debug, Args)]
pub(crate) struct EdgeArgs {
    /// Lines per second, of all writers together
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1000,10000,100000")]
    rates: Vec<u64>,

    /// Writers, each with a file
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    writers: u64,

    /// Bytes of a line as it is in the file
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(100..))]
    line_bytes: u64,

    /// Seconds of each rate, and of idling
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,

    /// Files of an idle agent
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    idle_files: u64,

    /// Bytes of a file that is there when the agent starts
    #[arg(long, value_name = "SIZE", default_value = "1GB")]
    backlog: Size,

    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
}

pub(crate) fn run(args: &EdgeArgs, context: &BenchContext) -> anyhow::Result<()> {
    let mut results = context.results("edge")?;
    for round in 1..=args.rounds {
        let mut measure = |subject: String, measured: &dyn Fn(&Setting) -> anyhow::Result<Vec<Figure>>| {
            let load = machine::load();
            let setting = Setting::new(context, &format!("{subject}-{round}"))?;
            let figures = measured(&setting).with_context(|| subject.clone())?;
            setting.node.stop()?;
            results.runs.push(BenchRun { subject, round, load, figures });
            anyhow::Ok(())
        };
        for rate in &args.rates {
            measure(format!("{rate}/s"), &|setting| growing_files(args, *rate, setting))?;
        }
        measure("idle".to_owned(), &|setting| idle_files(args, setting))?;
        measure("backlog".to_owned(), &|setting| backlog(args, setting))?;
    }
    context.report(&results)
}

/// A node, a directory for logs, and the program.
struct Setting {
    program: PathBuf,
    home: PathBuf,
    node: BenchNode,
}

impl Setting {
    fn new(context: &BenchContext, name: &str) -> anyhow::Result<Self> {
        let name = name.replace('/', "-");
        let home = context.path(&format!("{name}-logs"));
        fs::create_dir_all(&home)?;
        Ok(Self { program: context.bucksaw.clone(), home, node: context.node(&name, &[])? })
    }

    fn log(&self, number: u64) -> PathBuf {
        self.home.join(format!("{number}.log"))
    }

    fn start_agent(&self) -> anyhow::Result<Agent> {
        let mut command = Command::new(&self.program);
        command
            .args(["forward", "--format", "docker", "--to", self.node.address("fast")?, "--state-dir"])
            .arg(self.home.join("state"));
        command.arg(self.home.join("*.log"));
        let log = File::create(self.home.join("agent.stderr"))?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        Ok(Agent(child.context("cannot start the agent")?))
    }

    /// Waits until this number of records was accepted.
    fn wait_accepted(&self, lines: u64) -> anyhow::Result<()> {
        wait::until("every line being accepted", Duration::from_millis(5), SHIPPED_MAX, || {
            Ok((self.node.metric("bucksaw_ingest_records_total")? as u64 >= lines).then_some(()))
        })
    }
}

/// A running agent, killed on drop.
struct Agent(Child);

impl Agent {
    fn cpu_nanos(&self) -> anyhow::Result<u64> {
        process::cpu_nanos(self.0.id())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Both fail if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Files to which writers append at a rate.
fn growing_files(args: &EdgeArgs, rate: u64, setting: &Setting) -> anyhow::Result<Vec<Figure>> {
    let mut files = Vec::new();
    for number in 0..args.writers {
        let mut file = File::create(setting.log(number))?;
        file.write_all(line(args.line_bytes, 0).as_bytes())?;
        files.push(file);
    }
    let agent = setting.start_agent()?;
    setting.wait_accepted(args.writers)?;
    thread::sleep(WARM_UP);
    let (agent_before, node_before) = (agent.cpu_nanos()?, setting.node.cpu()?);
    let per_writer = rate * args.seconds / args.writers;
    let started = Instant::now();
    thread::scope(|scope| {
        let writers: Vec<_> =
            files.iter_mut().map(|file| scope.spawn(|| write_at_rate(file, args, per_writer))).collect();
        writers.into_iter().try_for_each(|writer| writer.join().unwrap_or_else(|_| anyhow::bail!("a writer panicked")))
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let lines = per_writer * args.writers;
    setting.wait_accepted(lines + args.writers)?;
    let agent_cpu = (agent.cpu_nanos()? - agent_before) as f64 / 1e3;
    let node_cpu = (setting.node.cpu()? - node_before) * 1e6;
    let peak = process::peak_mb(agent.0.id())?;
    drop(agent);
    setting.node.assert_count(lines + args.writers)?;
    Ok(vec![
        figure("lines", "lines/s", lines as f64 / seconds),
        figure("cpu_of_agent", "us/line", agent_cpu / lines as f64),
        figure("cpu_of_node", "us/line", node_cpu / lines as f64),
        figure("share_of_a_core", "%", agent_cpu / seconds / 1e4),
        figure("peak", "MB", peak),
    ])
}

fn write_at_rate(file: &mut File, args: &EdgeArgs, lines: u64) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut written = 0;
    while written < lines {
        let due = (started.elapsed().as_secs_f64() / args.seconds as f64 * lines as f64) as u64;
        while written < due.min(lines) {
            written += 1;
            file.write_all(line(args.line_bytes, written).as_bytes())?;
        }
        thread::sleep(WRITE_INTERVAL);
    }
    Ok(())
}

/// Many files that do not grow.
fn idle_files(args: &EdgeArgs, setting: &Setting) -> anyhow::Result<Vec<Figure>> {
    for number in 0..args.idle_files {
        fs::write(setting.log(number), line(args.line_bytes, number))?;
    }
    let agent = setting.start_agent()?;
    setting.wait_accepted(args.idle_files)?;
    // Files become idle after two seconds.
    thread::sleep(2 * WARM_UP);
    let before = agent.cpu_nanos()?;
    let started = Instant::now();
    thread::sleep(Duration::from_secs(args.seconds));
    let cpu = (agent.cpu_nanos()? - before) as f64 / 1e9;
    Ok(vec![
        figure("share_of_a_core", "%", cpu / started.elapsed().as_secs_f64() * 1e2),
        figure("peak", "MB", process::peak_mb(agent.0.id())?),
    ])
}

/// A large file that is there when the agent starts.
fn backlog(args: &EdgeArgs, setting: &Setting) -> anyhow::Result<Vec<Figure>> {
    let (bytes, lines) = write_backlog(&setting.log(0), args)?;
    let started = Instant::now();
    let agent = setting.start_agent()?;
    setting.wait_accepted(lines)?;
    let seconds = started.elapsed().as_secs_f64();
    let cpu = agent.cpu_nanos()? as f64 / 1e9;
    let peak = process::peak_mb(agent.0.id())?;
    drop(agent);
    setting.node.assert_count(lines)?;
    let megabytes = bytes as f64 / 1e6;
    Ok(vec![
        figure("speed", "MB/s", megabytes / seconds),
        figure("speed_per_cpu", "MB per CPU s", megabytes / cpu),
        figure("cpu_of_agent", "us/line", cpu * 1e6 / lines as f64),
        figure("peak", "MB", peak),
    ])
}

fn write_backlog(path: &Path, args: &EdgeArgs) -> anyhow::Result<(u64, u64)> {
    let mut file = std::io::BufWriter::new(File::create(path)?);
    let (mut bytes, mut lines) = (0, 0);
    while bytes < args.backlog.0 {
        let line = line(args.line_bytes, lines);
        file.write_all(line.as_bytes())?;
        bytes += line.len() as u64;
        lines += 1;
    }
    file.flush()?;
    ensure!(lines > 0, "the backlog is empty");
    Ok((bytes, lines))
}

/// A line of a container's log, with its line end `length` bytes long.
fn line(length: u64, number: u64) -> String {
    let head = format!("{{\"log\":\"request {number} ");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Nanoseconds, as runtimes write them.
    let micros = format_rfc3339(Millis(now.as_millis() as u64), now.subsec_nanos() % 1_000_000);
    let time = format!("{}{:03}Z", micros.trim_end_matches('Z'), now.subsec_nanos() % 1_000);
    let tail = format!("\\n\",\"stream\":\"stdout\",\"time\":\"{time}\"}}\n");
    let filler = usize::try_from(length).unwrap_or_default().saturating_sub(head.len() + tail.len());
    format!("{head}{}{tail}", "x".repeat(filler))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_length() {
        let text = line(100, 7);
        assert_eq!((text.len(), text.matches('\n').count()), (100, 1));
        assert!(serde_json::from_str::<serde_json::Value>(&text).unwrap()["log"].is_string());
    }
}
