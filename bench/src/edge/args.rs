//! The options of the measurement, and what is measured.

use std::path::PathBuf;

use clap::Args;

use super::agents::{EdgeAgent, ProgramPath};
use super::load::{EdgeLoad, LineDelivery, LoadAxes};
use crate::context::Size;

/// Measure the cost of collecting lines
#[derive(Debug, Args)]
pub(crate) struct EdgeArgs {
    /// The agents; those whose program is missing are skipped
    #[arg(long, value_enum, value_delimiter = ',', default_value = "bucksaw")]
    pub(super) agents: Vec<EdgeAgent>,

    /// The program of an agent, if it is not in PATH; repeatable
    #[arg(long = "program", value_name = "NAME=FILE")]
    pub(super) programs: Vec<ProgramPath>,

    /// How lines reach the agent
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tail,push")]
    pub(super) deliveries: Vec<LineDelivery>,

    /// Lines per second, of all writers together. The first value of each dimension is the base
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1000,500,10000,100000")]
    pub(super) rates: Vec<u64>,

    /// Writers, each with a file or a connection
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2,1,5,10", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) writers: Vec<u64>,

    /// Bytes of a line
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "100,1000,10000", value_parser = clap::value_parser!(u64).range(100..))]
    pub(super) line_bytes: Vec<u64>,

    /// Measure all combinations, not only those that differ from the base in one dimension
    #[arg(long)]
    pub(super) full: bool,

    /// Bytes at which a file is rotated
    #[arg(long, value_name = "SIZE", default_value = "10MB")]
    pub(super) rotate: Size,

    /// Seconds of each load, and of idling
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) seconds: u64,

    /// Files of an idle agent; 0 measures none
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(super) idle_files: u64,

    /// Bytes of a file that is there when the agent starts; 0 measures none
    #[arg(long, value_name = "SIZE", default_value = "1GB")]
    pub(super) backlog: Size,

    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(super) rounds: usize,

    /// Directory for the plots; none are drawn if omitted
    #[arg(long, value_name = "DIR")]
    pub(super) plots: Option<PathBuf>,

    /// Address at which Prometheus can scrape the running measurement
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) live: Option<String>,
}

/// What is measured.
#[derive(Clone, Copy)]
pub(super) enum EdgeSubject {
    Load(EdgeLoad),
    Idle,
    Backlog,
}

impl EdgeSubject {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Load(load) => load.name(),
            Self::Idle => "idle".to_owned(),
            Self::Backlog => "backlog".to_owned(),
        }
    }

    /// Whether it makes sense for an agent.
    pub(super) fn applies_to(&self, agent: EdgeAgent) -> bool {
        match self {
            Self::Load(load) => load.delivery == LineDelivery::Tail || agent.push_protocol().is_some(),
            Self::Idle => true,
            // Without a node it is not known when the agent has read everything.
            Self::Backlog => agent.delivers_to_node(),
        }
    }
}

impl EdgeArgs {
    pub(super) fn subjects(&self) -> Vec<EdgeSubject> {
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
