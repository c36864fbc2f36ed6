//! `edge`: what it costs a machine to collect the lines that its applications write.
//!
//! Writers append lines in the form of Docker's `json-file`, one write per line, or push them to a port of the agent. The
//! CPU is that of the agent alone, in all its threads; that of the node is a figure of its own. Other agents run with the
//! same writers.

mod agents;
mod live;
mod load;
mod measure;
mod plot;
mod writer;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use crate::context::{BenchContext, Size};
use crate::machine;
use crate::results::BenchRun;
use agents::{EdgeAgent, ProgramPath};
use live::LiveMetrics;
use load::{EdgeLoad, LineDelivery, LoadAxes};
use measure::EdgeSetting;

/// Measure the cost of collecting lines
#[derive(Debug, Args)]
pub(crate) struct EdgeArgs {
    /// The agents; those whose program is missing are skipped
    #[arg(long, value_enum, value_delimiter = ',', default_value = "bucksaw")]
    agents: Vec<EdgeAgent>,

    /// The program of an agent, if it is not in PATH; repeatable
    #[arg(long = "program", value_name = "NAME=FILE")]
    programs: Vec<ProgramPath>,

    /// How lines reach the agent
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tail,push")]
    deliveries: Vec<LineDelivery>,

    /// Lines per second, of all writers together. The first value of each dimension is the base
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1000,500,10000,100000")]
    rates: Vec<u64>,

    /// Writers, each with a file or a connection
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2,1,5,10", value_parser = clap::value_parser!(u64).range(1..))]
    writers: Vec<u64>,

    /// Bytes of a line
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "100,1000,10000", value_parser = clap::value_parser!(u64).range(100..))]
    line_bytes: Vec<u64>,

    /// Measure all combinations, not only those that differ from the base in one dimension
    #[arg(long)]
    full: bool,

    /// Bytes at which a file is rotated
    #[arg(long, value_name = "SIZE", default_value = "10MB")]
    rotate: Size,

    /// Seconds of each load, and of idling
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,

    /// Files of an idle agent; 0 measures none
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    idle_files: u64,

    /// Bytes of a file that is there when the agent starts; 0 measures none
    #[arg(long, value_name = "SIZE", default_value = "1GB")]
    backlog: Size,

    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,

    /// Directory for the plots; none are drawn if omitted
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,

    /// Address at which Prometheus can scrape the running measurement
    #[arg(long, value_name = "HOST:PORT")]
    live: Option<String>,
}

/// What is measured.
#[derive(Clone, Copy)]
enum EdgeSubject {
    Load(EdgeLoad),
    Idle,
    Backlog,
}

impl EdgeSubject {
    fn name(&self) -> String {
        match self {
            Self::Load(load) => load.name(),
            Self::Idle => "idle".to_owned(),
            Self::Backlog => "backlog".to_owned(),
        }
    }

    /// Whether it makes sense for an agent.
    fn applies_to(&self, agent: EdgeAgent) -> bool {
        match self {
            Self::Load(load) => load.delivery == LineDelivery::Tail || agent.push_protocol().is_some(),
            Self::Idle => true,
            // Without a node it is not known when the agent has read everything.
            Self::Backlog => agent.delivers_to_node(),
        }
    }
}

impl EdgeArgs {
    fn subjects(&self) -> Vec<EdgeSubject> {
        let axes = LoadAxes {
            deliveries: &self.deliveries,
            writers: &self.writers,
            rates: &self.rates,
            line_bytes: &self.line_bytes,
        };
        let mut subjects: Vec<_> = axes.loads(self.full).into_iter().map(EdgeSubject::Load).collect();
        subjects.extend((self.idle_files > 0).then_some(EdgeSubject::Idle));
        subjects.extend((self.backlog.0 > 0).then_some(EdgeSubject::Backlog));
        subjects
    }
}

pub(crate) fn run(args: &EdgeArgs, context: &BenchContext) -> anyhow::Result<()> {
    let live = LiveMetrics::start(args.live.as_deref())?;
    let mut results = context.results("edge")?;
    let mut measured = Vec::new();
    let mut programs = Vec::new();
    for agent in &args.agents {
        match agent.program(&args.programs, context) {
            Some(program) => programs.push((*agent, program)),
            None => eprintln!("{}: skipped, its program is missing", agent.name()),
        }
    }
    for round in 1..=args.rounds {
        for subject in args.subjects() {
            for (agent, program) in programs.iter().filter(|(agent, _)| subject.applies_to(*agent)) {
                let (name, load) = (format!("{} {}", agent.name(), subject.name()), machine::load());
                let setting = EdgeSetting::new(context, args, *agent, program, &live, &format!("{name}-{round}"))?;
                let figures = match subject {
                    EdgeSubject::Load(load) => setting.load(&load),
                    EdgeSubject::Idle => setting.idle(),
                    EdgeSubject::Backlog => setting.backlog(),
                };
                let figures = figures.with_context(|| name.clone())?;
                setting.end()?;
                let shown = figures.iter().find(|figure| figure.name == measure::CPU_PER_LINE);
                eprintln!(
                    "round {round}: {name} {}",
                    shown.map_or_else(String::new, |figure| format!("{:.2} us/line", figure.value))
                );
                if let EdgeSubject::Load(load) = subject {
                    measured.push((*agent, load));
                }
                results.runs.push(BenchRun { subject: name, round, load, figures });
            }
        }
    }
    if let Some(dir) = &args.plots {
        measured.dedup();
        plot::draw_all(dir, &measured, &|name| results.median(name, measure::CPU_PER_LINE))?;
    }
    context.report_in_rows(&results)
}
