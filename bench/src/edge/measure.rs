//! Measures one agent under one load.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bucksaw_faults::wait;

use super::agents::{AgentProcess, AgentStart, EdgeAgent, PushProtocol, free_port};
use super::args::EdgeArgs;
use super::live::{LiveMetrics, LiveSubject};
use super::load::{EdgeLoad, LineDelivery};
use super::writer::{FluentConnection, LineTarget, RotatedFile, SyslogConnection, docker_line, write_all};
use crate::context::BenchContext;
use crate::node::BenchNode;
use crate::results::{Figure, figure};

/// The figure that the plots show.
pub(super) const CPU_PER_LINE: &str = "cpu_of_agent";

/// The maximum time until the node has all lines.
const SHIPPED_MAX: Duration = Duration::from_secs(300);

/// The time between the start of an agent and the first measured line.
const WARM_UP: Duration = Duration::from_secs(3);

/// An agent that delivers to nothing has worked off its input when it has used hardly any CPU for this time.
const QUIET_TIME: Duration = Duration::from_secs(2);

/// Another agent than `bucksaw` has lost lines if none arrives for this time.
const STALL_TIME: Duration = Duration::from_secs(15);

/// CPU seconds in that time that a working agent exceeds.
const QUIET_CPU_SECONDS: f64 = 0.02;

/// The maximum time until the port of an agent accepts connections.
const LISTEN_MAX: Duration = Duration::from_secs(30);

/// A node, a directory for logs, and the program of an agent.
pub(super) struct EdgeSetting<'a> {
    args: &'a EdgeArgs,
    agent: EdgeAgent,
    program: &'a Path,
    live: &'a LiveMetrics,
    home: PathBuf,
    node: BenchNode,
}

impl<'a> EdgeSetting<'a> {
    pub(super) fn new(
        context: &BenchContext,
        args: &'a EdgeArgs,
        agent: EdgeAgent,
        program: &'a Path,
        live: &'a LiveMetrics,
        name: &str,
    ) -> anyhow::Result<Self> {
        let name = name.replace(['/', ' '], "-");
        let home = context.path(&format!("{name}-logs"));
        fs::create_dir_all(&home)?;
        let listeners =
            ["--listen-fluent", "127.0.0.1:0", "--listen-otlp", "127.0.0.1:0", "--listen-syslog", "127.0.0.1:0"];
        Ok(Self { args, agent, program, live, home, node: context.node(&name, &listeners)? })
    }

    /// Stops the node, and removes all files.
    pub(super) fn end(self) -> anyhow::Result<()> {
        let data = self.node.dir().to_owned();
        self.node.stop()?;
        for dir in [&self.home, &data] {
            fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
        Ok(())
    }

    fn log(&self, number: u64) -> PathBuf {
        self.home.join(format!("{number}.log"))
    }

    fn start_agent(&self, delivery: LineDelivery, port: u16) -> anyhow::Result<AgentProcess> {
        self.agent.start(&AgentStart { program: self.program, home: &self.home, node: &self.node, delivery, port })
    }

    /// Waits until the agent has worked off this number of lines.
    fn wait_worked_off(&self, agent: &AgentProcess, lines: u64) -> anyhow::Result<()> {
        if !self.agent.delivers_to_node() {
            return wait_quiet(agent);
        }
        let mut arrived = (0, Instant::now());
        wait::until("every line being accepted", Duration::from_millis(5), SHIPPED_MAX, || {
            let accepted = self.node.metric("bucksaw_ingest_records_total")? as u64;
            if accepted > arrived.0 {
                arrived = (accepted, Instant::now());
            }
            let is_stalled = self.agent != EdgeAgent::Bucksaw && arrived.1.elapsed() > STALL_TIME;
            Ok((accepted >= lines || is_stalled).then_some(()))
        })
        .with_context(|| format!("the agent said: {}", agent.log()))
    }

    /// The lines that are missing at the end, if they can be counted. An error if `bucksaw` has lost or repeated one.
    fn missing(&self, lines: u64) -> anyhow::Result<Option<Figure>> {
        if !self.agent.delivers_to_node() {
            return Ok(None);
        }
        if self.agent == EdgeAgent::Bucksaw {
            self.node.assert_count(lines)?;
        }
        let missing = lines as f64 - self.node.count()? as f64;
        Ok(Some(figure("missing", "lines", missing)))
    }

    /// The cost of a load.
    pub(super) fn load(&self, load: &EdgeLoad) -> anyhow::Result<Vec<Figure>> {
        let port = free_port()?;
        let mut targets: Vec<Box<dyn LineTarget>> = Vec::new();
        if load.delivery == LineDelivery::Tail {
            for number in 0..load.writers {
                targets.push(Box::new(RotatedFile::create(&self.log(number), load.line_bytes, self.args.rotate.0)?));
            }
        }
        first_lines(&mut targets)?;
        let agent = self.start_agent(load.delivery, port)?;
        if load.delivery == LineDelivery::Push {
            targets = connect_all(self.agent, load, port)?;
            first_lines(&mut targets)?;
        }
        self.wait_worked_off(&agent, load.writers)?;
        thread::sleep(WARM_UP);
        let written = Arc::new(AtomicU64::new(0));
        let _live = self.live.show(LiveSubject {
            agent: self.agent.name(),
            load: *load,
            pid: agent.pid(),
            lines: Arc::clone(&written),
        });
        let (agent_before, node_before) = (agent.cpu_nanos()?, self.node.cpu()?);
        let seconds = write_all(&mut targets, load, self.args.seconds, &written)?;
        let lines = load.lines_per_writer(self.args.seconds) * load.writers;
        self.wait_worked_off(&agent, lines + load.writers)?;
        let agent_cpu = (agent.cpu_nanos()? - agent_before) as f64 / 1e3;
        let node_cpu = (self.node.cpu()? - node_before) * 1e6;
        let peak = agent.peak_mb()?;
        drop((targets, agent));
        let missing = self.missing(lines + load.writers)?;
        let mut figures = vec![
            figure("lines", "lines/s", lines as f64 / seconds),
            figure(CPU_PER_LINE, "us/line", agent_cpu / lines as f64),
            figure("share_of_a_core", "%", agent_cpu / seconds / 1e4),
            figure("peak", "MB", peak),
        ];
        if self.agent.delivers_to_node() {
            figures.push(figure("cpu_of_node", "us/line", node_cpu / lines as f64));
        }
        figures.extend(missing);
        Ok(figures)
    }

    /// The cost of many files that do not grow.
    pub(super) fn idle(&self) -> anyhow::Result<Vec<Figure>> {
        let line_bytes = self.base_line_bytes();
        for number in 0..self.args.idle_files {
            fs::write(self.log(number), docker_line(line_bytes, number))?;
        }
        let agent = self.start_agent(LineDelivery::Tail, 0)?;
        self.wait_worked_off(&agent, self.args.idle_files)?;
        // Files of `bucksaw forward` become idle after two seconds.
        thread::sleep(2 * WARM_UP);
        let before = agent.cpu_nanos()?;
        let started = Instant::now();
        thread::sleep(Duration::from_secs(self.args.seconds));
        let cpu = (agent.cpu_nanos()? - before) as f64 / 1e9;
        Ok(vec![
            figure("share_of_a_core", "%", cpu / started.elapsed().as_secs_f64() * 1e2),
            figure("peak", "MB", agent.peak_mb()?),
        ])
    }

    /// The speed with a large file that is there when the agent starts.
    pub(super) fn backlog(&self) -> anyhow::Result<Vec<Figure>> {
        let (bytes, lines) = write_backlog(&self.log(0), self.args.backlog.0, self.base_line_bytes())?;
        let started = Instant::now();
        let agent = self.start_agent(LineDelivery::Tail, 0)?;
        self.wait_worked_off(&agent, lines)?;
        let seconds = started.elapsed().as_secs_f64();
        let cpu = agent.cpu_nanos()? as f64 / 1e9;
        let peak = agent.peak_mb()?;
        drop(agent);
        let missing = self.missing(lines)?;
        let megabytes = bytes as f64 / 1e6;
        let mut figures = vec![
            figure("speed", "MB/s", megabytes / seconds),
            figure("speed_per_cpu", "MB per CPU s", megabytes / cpu),
            figure(CPU_PER_LINE, "us/line", cpu * 1e6 / lines as f64),
            figure("peak", "MB", peak),
        ];
        figures.extend(missing);
        Ok(figures)
    }

    fn base_line_bytes(&self) -> u64 {
        self.args.line_bytes.first().copied().unwrap_or(100)
    }
}

/// A line before the measurement, so that the agent knows each file and connection.
fn first_lines(targets: &mut [Box<dyn LineTarget>]) -> anyhow::Result<()> {
    targets.iter_mut().try_for_each(|target| target.write(0..1))
}

fn connect_all(agent: EdgeAgent, load: &EdgeLoad, port: u16) -> anyhow::Result<Vec<Box<dyn LineTarget>>> {
    let protocol = agent.push_protocol().context("writers cannot push to this agent")?;
    let address = format!("127.0.0.1:{port}");
    let connect = || -> anyhow::Result<Box<dyn LineTarget>> {
        Ok(match protocol {
            PushProtocol::Fluent => Box::new(FluentConnection::connect(&address, load.line_bytes)?),
            PushProtocol::Syslog => Box::new(SyslogConnection::connect(&address, load.line_bytes)?),
        })
    };
    let first = wait::until("the port of the agent", Duration::from_millis(20), LISTEN_MAX, || Ok(connect().ok()))?;
    let others = (1..load.writers).map(|_| connect()).collect::<anyhow::Result<Vec<_>>>()?;
    Ok([first].into_iter().chain(others).collect())
}

fn wait_quiet(agent: &AgentProcess) -> anyhow::Result<()> {
    let mut before = (Instant::now(), agent.cpu_nanos()?);
    wait::until("the agent to become quiet", Duration::from_millis(100), SHIPPED_MAX, || {
        let cpu = agent.cpu_nanos()?;
        if (cpu - before.1) as f64 / 1e9 > QUIET_CPU_SECONDS {
            before = (Instant::now(), cpu);
        }
        Ok((before.0.elapsed() >= QUIET_TIME).then_some(()))
    })
}

fn write_backlog(path: &Path, wanted: u64, line_bytes: u64) -> anyhow::Result<(u64, u64)> {
    let mut file = std::io::BufWriter::new(File::create(path)?);
    let (mut bytes, mut lines) = (0, 0);
    while bytes < wanted {
        let line = docker_line(line_bytes, lines);
        file.write_all(line.as_bytes())?;
        bytes += line.len() as u64;
        lines += 1;
    }
    file.flush()?;
    ensure!(lines > 0, "the backlog is empty");
    Ok((bytes, lines))
}
