//! The measured costs of one machine, as they are kept in a calibration file.

use serde::{Deserialize, Serialize};

use crate::question_kind::QuestionKind;
use crate::request_times::RequestTimes;

/// Service demands that were measured on one machine with one kind of log. Other machines scale them by the number of
/// cores only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The version of this structure: [`Calibration::VERSION`].
    pub version: u32,
    /// Where and when the costs were measured.
    pub machine: MachineDescription,
    /// Cores that a node without load uses.
    pub base_cores: f64,
    /// CPU of accepting records into the queue.
    pub accept: AcceptCost,
    /// Bytes per second that the disk writes in large files with one sync each.
    pub disk_bytes_per_second: f64,
    /// How long requests and group commits take.
    pub requests: RequestTimes,
    /// CPU and bytes of storing them.
    pub store: StoreCost,
    /// How costs grow with the number of nodes.
    pub scaling: ScalingCost,
    /// CPU of answering, by kind of question.
    pub questions: Vec<QuestionCost>,
    /// Resident memory of a node without load and with an empty cache, in bytes.
    pub base_memory_bytes: f64,
}

/// The machine of a [`Calibration`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineDescription {
    /// The name of its processor.
    pub processor: String,
    /// Cores that the program could use.
    pub cores: u32,
    /// Its memory in bytes.
    pub memory_bytes: u64,
    /// The version of the program.
    pub program: String,
    /// The day of the measurement, as `2026-11-27`.
    pub measured: String,
    /// What the lines were: the name of the sample.
    pub sample: String,
}

/// CPU of accepting records, from the socket to the queue: a linear function of bytes, records, requests and group commits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptCost {
    /// CPU seconds per byte of text.
    pub seconds_per_byte: f64,
    /// CPU seconds per record.
    pub seconds_per_record: f64,
    /// CPU seconds per request, without its group commit.
    pub seconds_per_request: f64,
    /// CPU seconds per group commit, which several requests share under load.
    pub seconds_per_commit: f64,
}

/// What it costs to gather, encode and merge text of one copy after it was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreCost {
    /// CPU seconds to gather and encode a byte of text.
    pub seconds_per_byte: f64,
    /// CPU seconds to merge a byte of text once.
    pub merge_seconds_per_byte: f64,
    /// Bytes of segment files per byte of text, once all is merged.
    pub stored_per_byte: f64,
    /// Bytes that the store writes per byte of text that it gathers. A merge writes what is stored then.
    pub written_per_byte: f64,
}

/// The universal scalability law of accepting and storing: a byte costs `1 + contention·(n − 1) + coherence·n·(n − 1)` times as
/// much in a cluster of n nodes as on a single one. The upper values are 95 % bounds of the fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScalingCost {
    /// The share of the work that is serial.
    pub contention: f64,
    /// Its upper bound.
    pub contention_max: f64,
    /// The cost of each pair of nodes.
    pub coherence: f64,
    /// Its upper bound.
    pub coherence_max: f64,
}

impl ScalingCost {
    /// The cost of a byte with this number of nodes, relative to that on a single node: the most likely one.
    #[must_use]
    pub fn factor(&self, nodes: f64) -> f64 {
        1.0 + (self.contention + self.coherence * nodes) * (nodes - 1.0).max(0.0)
    }

    /// The same with both upper bounds.
    #[must_use]
    pub fn factor_max(&self, nodes: f64) -> f64 {
        Self { contention: self.contention_max, coherence: self.coherence_max, ..*self }.factor(nodes)
    }
}

/// What one kind of question costs on one node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionCost {
    /// The kind.
    pub kind: QuestionKind,
    /// CPU seconds of a question over no text.
    pub fixed_seconds: f64,
    /// CPU seconds per byte of text in range that is in the queue.
    pub queued_seconds_per_byte: f64,
    /// CPU seconds per byte of text in range whose blocks are not in the block cache.
    pub cold_seconds_per_byte: f64,
    /// CPU seconds per byte of text in range whose blocks are in the block cache.
    pub cached_seconds_per_byte: f64,
    /// Bytes of the block cache per byte of text in range.
    pub cache_per_byte: f64,
    /// The share of its work on text that runs on one core while others are idle: the last blocks, and what waits for others.
    /// From 0 to 1.
    pub serial_share: f64,
    /// Coefficient of variation of the CPU of this kind of question.
    pub variation: f64,
}

impl QuestionCost {
    /// Seconds per CPU second of its work on text with this many threads. Amdahl, "Validity of the single processor approach",
    /// AFIPS 1967.
    #[must_use]
    pub fn seconds_per_cpu_second(&self, threads: f64) -> f64 {
        self.serial_share + (1.0 - self.serial_share) / threads
    }

    /// The serial share of questions that took this many seconds per CPU second with as many threads. With one thread it is
    /// unknown, and 0.
    #[must_use]
    pub fn serial_share_of(seconds_per_cpu_second: f64, threads: f64) -> f64 {
        if threads <= 1.0 {
            return 0.0;
        }
        let even = threads.recip();
        ((seconds_per_cpu_second - even) / (1.0 - even)).clamp(0.0, 1.0)
    }
}

/// A calibration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// Written by another version.
    #[error("the calibration has version {found}, and this program reads version {}", Calibration::VERSION)]
    Version {
        /// The version of the file.
        found: u32,
    },
    /// A cost is negative, infinite or no number.
    #[error("{name} of the calibration is not a number of at least 0")]
    Value {
        /// The name of the value.
        name: &'static str,
    },
    /// A share is above 1.
    #[error("{name} of the calibration is above 1")]
    Share {
        /// The name of the value.
        name: &'static str,
    },
    /// A histogram is none.
    #[error("{name} of the calibration has no rising bounds with a count for each, of which one is above 0")]
    Histogram {
        /// The name of the histogram.
        name: &'static str,
    },
    /// The same kind of question twice.
    #[error("the calibration has the question '{0}' twice")]
    Repeated(QuestionKind),
}

impl Calibration {
    /// The version that this program writes and reads.
    pub const VERSION: u32 = 7;

    /// Checks the version of a file.
    ///
    /// # Errors
    /// It is not [`Calibration::VERSION`].
    pub const fn check_version(found: u32) -> Result<(), CalibrationError> {
        if found == Self::VERSION { Ok(()) } else { Err(CalibrationError::Version { found }) }
    }

    /// Checks the values of a file.
    ///
    /// # Errors
    /// Another version, a value that no measurement has, or a kind of question that occurs twice.
    pub fn check(&self) -> Result<(), CalibrationError> {
        Self::check_version(self.version)?;
        let questions = self.questions.iter().flat_map(|cost| {
            [
                ("fixed_seconds", cost.fixed_seconds),
                ("queued_seconds_per_byte", cost.queued_seconds_per_byte),
                ("cold_seconds_per_byte", cost.cold_seconds_per_byte),
                ("cached_seconds_per_byte", cost.cached_seconds_per_byte),
                ("cache_per_byte", cost.cache_per_byte),
                ("serial_share", cost.serial_share),
                ("variation", cost.variation),
            ]
        });
        let values = [
            ("accept.seconds_per_byte", self.accept.seconds_per_byte),
            ("accept.seconds_per_record", self.accept.seconds_per_record),
            ("accept.seconds_per_request", self.accept.seconds_per_request),
            ("accept.seconds_per_commit", self.accept.seconds_per_commit),
            ("requests.quiet.requests_per_second", self.requests.quiet.requests_per_second),
            ("requests.quiet.syncs_per_second", self.requests.quiet.syncs_per_second),
            ("requests.quiet.commit_seconds", self.requests.quiet.commit_seconds),
            ("requests.quiet.latency.mean_seconds", self.requests.quiet.latency.mean_seconds),
            ("requests.quiet.sync.mean_seconds", self.requests.quiet.sync.mean_seconds),
            ("requests.busy.requests_per_second", self.requests.busy.requests_per_second),
            ("requests.busy.syncs_per_second", self.requests.busy.syncs_per_second),
            ("requests.busy.commit_seconds", self.requests.busy.commit_seconds),
            ("requests.busy.latency.mean_seconds", self.requests.busy.latency.mean_seconds),
            ("requests.busy.sync.mean_seconds", self.requests.busy.sync.mean_seconds),
            ("store.seconds_per_byte", self.store.seconds_per_byte),
            ("store.merge_seconds_per_byte", self.store.merge_seconds_per_byte),
            ("store.stored_per_byte", self.store.stored_per_byte),
            ("store.written_per_byte", self.store.written_per_byte),
            ("scaling.contention", self.scaling.contention),
            ("scaling.contention_max", self.scaling.contention_max),
            ("scaling.coherence", self.scaling.coherence),
            ("scaling.coherence_max", self.scaling.coherence_max),
            ("base_cores", self.base_cores),
            ("disk_bytes_per_second", self.disk_bytes_per_second),
            ("base_memory_bytes", self.base_memory_bytes),
        ];
        for (name, value) in values.into_iter().chain(questions) {
            if !(value.is_finite() && value >= 0.0) {
                return Err(CalibrationError::Value { name });
            }
        }
        if self.questions.iter().any(|cost| cost.serial_share > 1.0) {
            return Err(CalibrationError::Share { name: "serial_share" });
        }
        let histograms = [
            ("requests.quiet.latency", &self.requests.quiet.latency),
            ("requests.quiet.sync", &self.requests.quiet.sync),
            ("requests.busy.latency", &self.requests.busy.latency),
            ("requests.busy.sync", &self.requests.busy.sync),
        ];
        if let Some((name, _)) = histograms.into_iter().find(|(_, times)| times.distribution().is_none()) {
            return Err(CalibrationError::Histogram { name });
        }
        for (at, cost) in self.questions.iter().enumerate() {
            if self.questions.iter().skip(at + 1).any(|other| other.kind == cost.kind) {
                return Err(CalibrationError::Repeated(cost.kind));
            }
        }
        Ok(())
    }

    /// The cost of a kind of question, if it was measured.
    #[must_use]
    pub fn question(&self, kind: QuestionKind) -> Option<&QuestionCost> {
        self.questions.iter().find(|cost| cost.kind == kind)
    }
}
