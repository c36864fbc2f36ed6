//! What a cluster is planned for: load, questions, targets and machines.

use crate::calibration::Calibration;
use crate::question_kind::QuestionKind;
use crate::tier::PlannedNodes;

/// When a request is acknowledged; each durability has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPoint {
    /// Once its records are written to the queue: `fast`.
    Written,
    /// Once they are synced to the disk of the ingest node: `durable`.
    Synced,
    /// Once all copies are stored: `bulk`.
    Stored,
}

/// Questions of one kind and range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedQuestion {
    /// What is asked.
    pub kind: QuestionKind,
    /// How often, in questions per second.
    pub per_second: f64,
    /// The time range of each, in seconds; at most the retention counts.
    pub range_seconds: f64,
}

/// Upper bounds that the plan must meet; `None` for no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Targets {
    /// The 99th percentile of the response time of each question, in seconds.
    pub question_p99_seconds: Option<f64>,
    /// The 99th percentile of the time from a request to its acknowledgement, in seconds.
    pub ack_p99_seconds: Option<f64>,
    /// The time in which the records of a lost node are re-replicated, in seconds.
    pub repair_seconds: Option<f64>,
}

/// A CPU quota, such as the CPU limit of a container: the kernel stops a node that has used it up until the next period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuLimit {
    /// Cores that the node may use on average.
    pub cores: f64,
    /// Seconds of a period; 0.1 by default on Linux and with Kubernetes.
    pub period_seconds: f64,
}

/// What a node has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeSize {
    /// Cores of the machine; at least 1.
    pub cores: f64,
    /// How much of them the node may use; `None` for all.
    pub cpu_limit: Option<CpuLimit>,
    /// Memory limit of the node in bytes.
    pub memory_bytes: f64,
    /// Bytes of its disk.
    pub disk_bytes: f64,
    /// Bytes per second that its disk writes.
    pub disk_bytes_per_second: f64,
    /// Bytes per second that the node may write, as with the limit of a container; `None` without one.
    pub disk_write_limit: Option<f64>,
    /// Seconds of one read from its disk, of any size.
    pub disk_read_seconds: f64,
    /// Bytes per second of its network, in each direction.
    pub network_bytes_per_second: f64,
}

impl NodeSize {
    /// The limit, if it is below the cores of the machine.
    pub(crate) fn effective_limit(&self) -> Option<CpuLimit> {
        self.cpu_limit.filter(|limit| limit.cores < self.cores)
    }

    /// Cores that all work of the node may use on average.
    pub(crate) fn cpu(&self) -> f64 {
        self.effective_limit().map_or(self.cores, |limit| limit.cores)
    }

    /// Threads of one question: one per whole core that the node may use.
    pub(crate) fn question_threads(&self) -> f64 {
        self.cpu().floor().max(1.0)
    }

    /// Bytes per second that the node can write on average.
    pub(crate) fn write_bytes_per_second(&self) -> f64 {
        self.disk_write_limit.map_or(self.disk_bytes_per_second, |limit| limit.min(self.disk_bytes_per_second))
    }

    /// The speed of a gather or merge, which runs on one thread, relative to that of one core.
    pub(crate) fn background_speed(&self) -> f64 {
        self.cpu().min(1.0)
    }
}

/// Everything that a plan is made from, besides the [`Calibration`].
#[derive(Clone, Debug, PartialEq)]
pub struct CapacityInput {
    /// Mean bytes of text per second, of all senders.
    pub bytes_per_second: f64,
    /// The highest rate over the mean rate; at least 1.
    pub peak_factor: f64,
    /// Mean bytes of a line, with its line end.
    pub line_bytes: f64,
    /// Mean bytes of text per request.
    pub request_bytes: f64,
    /// When requests are acknowledged.
    pub ack_point: AckPoint,
    /// How long records are kept, in seconds.
    pub retention_seconds: f64,
    /// On how many stores each record is kept: the replication factor.
    pub copies: u32,
    /// The questions.
    pub questions: Vec<PlannedQuestion>,
    /// The targets.
    pub targets: Targets,
    /// The size of each node.
    pub node: NodeSize,
    /// How many nodes of each tier may be down while all targets hold.
    pub failed_nodes: u32,
    /// The number of nodes.
    pub nodes: PlannedNodes,
}

/// Input that makes no sense, or that the calibration does not cover.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A value outside of its range.
    #[error("{name} must be {range}")]
    Value {
        /// What the value is.
        name: &'static str,
        /// What it may be.
        range: &'static str,
    },
    /// The calibration has no cost for a kind of question.
    #[error("the calibration has no cost of the question '{0}'")]
    NotMeasured(QuestionKind),
    /// Fewer nodes than copies and failed nodes.
    #[error("{nodes} nodes are too few for {copies} copies while {failed} nodes are down")]
    TooFewNodes {
        /// The number of nodes.
        nodes: u32,
        /// The replication factor.
        copies: u32,
        /// The nodes that are down.
        failed: u32,
    },
    /// All ingest nodes may be down.
    #[error("no ingest node would be left: {nodes} planned, of which {failed} may be down")]
    NoIngestNode {
        /// The number of ingest nodes.
        nodes: u32,
        /// Those that are down.
        failed: u32,
    },
}

impl CapacityInput {
    /// Checks all values.
    ///
    /// # Errors
    /// The first value that makes no sense.
    pub fn check(&self, calibration: &Calibration) -> Result<(), InputError> {
        let node = &self.node;
        let positive = [
            ("the rate", self.bytes_per_second),
            ("the length of a line", self.line_bytes),
            ("the size of a request", self.request_bytes),
            ("the retention", self.retention_seconds),
            ("the CPU limit", node.cpu_limit.map_or(1.0, |limit| limit.cores)),
            ("the period of the CPU limit", node.cpu_limit.map_or(1.0, |limit| limit.period_seconds)),
            ("the memory", node.memory_bytes),
            ("the size of the disk", node.disk_bytes),
            ("the bandwidth of the disk", node.disk_bytes_per_second),
            ("the limit of writes", node.disk_write_limit.unwrap_or(1.0)),
            ("the bandwidth of the network", node.network_bytes_per_second),
        ];
        let targets = [
            ("the target of questions", self.targets.question_p99_seconds),
            ("the target of acknowledgements", self.targets.ack_p99_seconds),
            ("the target of the repair time", self.targets.repair_seconds),
        ];
        let targets = targets.into_iter().filter_map(|(name, value)| value.map(|value| (name, value)));
        let questions = self.questions.iter().flat_map(|question| {
            [("the rate of a question", question.per_second), ("the range of a question", question.range_seconds)]
        });
        for (name, value) in positive.into_iter().chain(targets).chain(questions) {
            if !(value.is_finite() && value > 0.0) {
                return Err(InputError::Value { name, range: "above 0" });
            }
        }
        if !(node.cores.is_finite() && node.cores >= 1.0) {
            return Err(InputError::Value { name: "the number of cores", range: "at least 1" });
        }
        if !(node.disk_read_seconds.is_finite() && node.disk_read_seconds >= 0.0) {
            return Err(InputError::Value { name: "the time of a read from the disk", range: "at least 0" });
        }
        if !(self.peak_factor.is_finite() && self.peak_factor >= 1.0) {
            return Err(InputError::Value { name: "the peak factor", range: "at least 1" });
        }
        if self.copies == 0 {
            return Err(InputError::Value { name: "the number of copies", range: "at least 1" });
        }
        for question in &self.questions {
            if calibration.question(question.kind).is_none() {
                return Err(InputError::NotMeasured(question.kind));
            }
        }
        let too_few = |nodes| InputError::TooFewNodes { nodes, copies: self.copies, failed: self.failed_nodes };
        match self.nodes {
            PlannedNodes::Both(nodes) | PlannedNodes::Separate { store: nodes, .. } if nodes < self.nodes_min() => {
                Err(too_few(nodes))
            }
            PlannedNodes::Separate { ingest, .. } if ingest <= self.failed_nodes => {
                Err(InputError::NoIngestNode { nodes: ingest, failed: self.failed_nodes })
            }
            _ => Ok(()),
        }
    }

    /// The nodes without which there are not enough stores: copies and failed nodes.
    pub(crate) const fn nodes_min(&self) -> u32 {
        self.copies.saturating_add(self.failed_nodes)
    }

    /// The highest rate in bytes per second.
    pub(crate) fn peak_bytes_per_second(&self) -> f64 {
        self.bytes_per_second * self.peak_factor
    }
}
