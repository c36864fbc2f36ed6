//! The flags of `bucksaw plan`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use bucksaw_capacity::{
    AckPoint, CapacityInput, CpuLimit, NodeSize, PlannedNodes, PlannedQuestion, QuestionKind, Targets,
};
use bucksaw_ingest::Durability;
use bucksaw_record::time::parse_duration;
use clap::Args;

use crate::args::{DocumentFormat, NodeArgs};
use crate::failure::UsageError;
use crate::values::{ByteSize, durability, failed_node_count, node_count, replication_factor, time_limit};

/// Say what a cluster needs for a load, and what it will do
///
/// Computes the number of nodes, CPU, disk, memory and network of each, response times, and which resource limits first, from
/// the costs of this program. Without --sample and --calibration the costs are those of the machine and the log that the output
/// names: give a file of your own logs as --sample to measure on this machine, which takes about three minutes. Exits with 1
/// if the nodes are not enough. See docs/model.md for the formulas and their errors.
#[derive(Clone, Debug, Args)]
pub(crate) struct PlanArgs {
    /// Mean text per second, or per day with /d, such as 10MB or 800GB/d
    #[arg(long, value_name = "SIZE[/d]", value_parser = byte_rate)]
    rate: Option<f64>,

    /// Compare a running cluster with the costs, and show the head-room of its nodes
    ///
    /// Reads the metrics of all nodes, that of --addr and those it knows, for --interval. The flags of a load have no effect.
    #[arg(long, conflicts_with_all = ["sample", "rate", "explain"])]
    pub(super) live: bool,

    /// Time for which --live observes the cluster
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time_limit)]
    pub(super) interval: Duration,

    /// Highest rate, relative to the mean
    #[arg(long, value_name = "FACTOR", default_value = "3", value_parser = factor)]
    peak: f64,

    /// Mean length of a line in bytes; defaults to that of the sample, else 200
    #[arg(long, value_name = "SIZE")]
    line_bytes: Option<ByteSize>,

    /// Mean text per request or batch of a sender
    #[arg(long, value_name = "SIZE", default_value = "256KB")]
    pub(super) request_bytes: ByteSize,

    /// When records count as accepted
    #[arg(long, value_name = "DURABILITY", default_value = "durable", value_parser = durability(&["fast", "durable", "bulk"]))]
    durability: Durability,

    /// Age at which records are deleted, such as 12h, 7d or 8w
    #[arg(long, value_name = "AGE", default_value = "7d", value_parser = time_limit)]
    retention_age: Duration,

    /// Number of stores that keep each record
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = replication_factor)]
    replication_factor: u32,

    /// Questions, as kind:per-hour:range; repeatable
    ///
    /// A kind is needle (a rare word), word (a frequent one), regex (without a literal) or histogram (of a frequent word). The
    /// default is one person who searches, and a page or dashboard that shows a histogram of the last hour every 10 seconds.
    #[arg(long = "question", value_name = "KIND:N:AGE", id = "questions",
          default_values = ["needle:60:1d", "word:60:1h", "regex:6:1h", "histogram:360:1h"])]
    questions: Vec<QuestionFlag>,

    /// Time within which 99 of 100 questions must be answered
    #[arg(long, value_name = "TIME", value_parser = time_limit)]
    question_time: Option<Duration>,

    /// Time within which 99 of 100 requests must be acknowledged
    #[arg(long, value_name = "TIME", value_parser = time_limit)]
    ack_time: Option<Duration>,

    /// Time within which the records of a lost node must have all copies again
    #[arg(long, value_name = "TIME", value_parser = time_limit)]
    repair_time: Option<Duration>,

    /// Cores of the machine of a node; defaults to those of this machine
    #[arg(long, value_name = "N", value_parser = core_count)]
    cores: Option<u32>,

    /// CPU limit of a node in cores, such as 0.5; the quota of its container or control group
    #[arg(long, value_name = "CORES", value_parser = factor)]
    cpu_limit: Option<f64>,

    /// Period of the CPU limit: a node that has used it up is stopped for the rest of the period
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = time_limit, requires = "cpu_limit")]
    cpu_period: Duration,

    /// Memory limit of a node; defaults to the memory of this machine
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,

    /// Disk of a node
    #[arg(long, value_name = "SIZE", default_value = "1TB")]
    disk: ByteSize,

    /// Bytes per second that the disk of a node writes; defaults to those of the disk on which the costs were measured
    #[arg(long, value_name = "SIZE")]
    disk_rate: Option<ByteSize>,

    /// Bytes per second that a node may write; the limit of its container or control group
    ///
    /// The kernel lets the bytes of 0.1 s pass at once, so this is no slow disk.
    #[arg(long, value_name = "SIZE")]
    disk_limit: Option<ByteSize>,

    /// Time of one read from the disk of a node, of any size
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = read_time)]
    disk_latency: Duration,

    /// Bytes per second of the network of a node in one direction
    #[arg(long, value_name = "SIZE", default_value = "100MB")]
    network_rate: ByteSize,

    /// Number of nodes; without it, the least number that is enough
    #[arg(long, value_name = "N", value_parser = node_count)]
    nodes: Option<u32>,

    /// Number of nodes that only accept records
    #[arg(long, value_name = "N", value_parser = node_count, requires = "store_nodes", conflicts_with = "nodes")]
    ingest_nodes: Option<u32>,

    /// Number of nodes that only store and search them
    #[arg(long, value_name = "N", value_parser = node_count, requires = "ingest_nodes", conflicts_with = "nodes")]
    store_nodes: Option<u32>,

    /// Nodes of each kind that may be down while the load is carried and all targets are met; defaults to the replication factor minus 1
    #[arg(long, value_name = "N", value_parser = failed_node_count)]
    failed_nodes: Option<u32>,

    /// Measure the costs on this machine with these logs
    #[arg(long, value_name = "FILE", conflicts_with = "calibration")]
    pub(super) sample: Option<PathBuf>,

    /// Directory for the data of the measurement, on the disk to measure; defaults to that of temporary files
    #[arg(long, value_name = "DIR", requires = "sample")]
    pub(super) scratch_dir: Option<PathBuf>,

    /// Read the costs from this file
    #[arg(long, value_name = "FILE")]
    pub(super) calibration: Option<PathBuf>,

    /// Write the measured costs to this file, for --calibration
    #[arg(long, value_name = "FILE", requires = "sample")]
    pub(super) save_calibration: Option<PathBuf>,

    /// Show the formula of each figure with its values
    #[arg(long)]
    pub(super) explain: bool,

    /// Output format: text is for people, json has all figures with their formulas
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text", hide_possible_values = true)]
    pub(super) output: DocumentFormat,

    #[command(flatten)]
    pub(super) node: NodeArgs,
}

/// More cores than any machine has.
const CORES_MAX: u32 = 100_000;

/// The length of a line if nothing says it.
const LINE_BYTES: f64 = 200.0;

/// What nodes and lines are if no flag says it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    /// Cores of this machine.
    pub(super) cores: f64,
    /// Memory of this machine.
    pub(super) memory_bytes: f64,
    /// Bytes per second of the disk on which the costs were measured.
    pub(super) disk_bytes_per_second: f64,
    /// The mean length of the lines of a sample, if there is one.
    pub(super) line_bytes: Option<f64>,
}

impl PlanArgs {
    /// Bytes of text per second.
    ///
    /// # Errors
    /// No rate is given.
    pub(super) fn rate(&self) -> Result<f64, UsageError> {
        let missing = "plan needs --rate, such as 10MB, or --live for a running cluster";
        self.rate.ok_or_else(|| UsageError(missing.to_owned()))
    }

    /// The input of the plan.
    ///
    /// # Errors
    /// No rate is given.
    pub(super) fn input(&self, defaults: Defaults) -> Result<CapacityInput, UsageError> {
        let bytes = |size: ByteSize| size.0 as f64;
        let seconds = |time: Duration| time.as_secs_f64();
        Ok(CapacityInput {
            bytes_per_second: self.rate()?,
            peak_factor: self.peak,
            line_bytes: self.line_bytes.map(bytes).or(defaults.line_bytes).unwrap_or(LINE_BYTES),
            request_bytes: bytes(self.request_bytes),
            ack_point: match self.durability {
                Durability::Fast => AckPoint::Written,
                Durability::Durable => AckPoint::Synced,
                Durability::Bulk => AckPoint::Stored,
            },
            retention_seconds: seconds(self.retention_age),
            copies: self.replication_factor,
            questions: self.questions.iter().map(|question| question.0).collect(),
            targets: Targets {
                question_p99_seconds: self.question_time.map(seconds),
                ack_p99_seconds: self.ack_time.map(seconds),
                repair_seconds: self.repair_time.map(seconds),
            },
            node: NodeSize {
                cores: self.cores.map_or(defaults.cores, f64::from),
                cpu_limit: self.cpu_limit.map(|cores| CpuLimit { cores, period_seconds: seconds(self.cpu_period) }),
                memory_bytes: self.memory.map_or(defaults.memory_bytes, bytes),
                disk_bytes: bytes(self.disk),
                disk_bytes_per_second: self.disk_rate.map_or(defaults.disk_bytes_per_second, bytes),
                disk_write_limit: self.disk_limit.map(bytes),
                disk_read_seconds: seconds(self.disk_latency),
                network_bytes_per_second: bytes(self.network_rate),
            },
            failed_nodes: self.failed_nodes.unwrap_or(self.replication_factor.saturating_sub(1)),
            nodes: match (self.nodes, self.ingest_nodes, self.store_nodes) {
                (_, Some(ingest), Some(store)) => PlannedNodes::Separate { ingest, store },
                (Some(nodes), ..) => PlannedNodes::Both(nodes),
                _ => PlannedNodes::Least,
            },
        })
    }
}

/// `KIND:PER-HOUR:RANGE`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct QuestionFlag(PlannedQuestion);

impl FromStr for QuestionFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [kind, per_hour, range] = text.split(':').collect::<Vec<_>>()[..] else {
            return Err("expected kind:per-hour:range, such as word:60:1h".to_owned());
        };
        let kind: QuestionKind = kind.parse()?;
        let per_hour = factor(per_hour)?;
        let range = parse_duration(range).map_err(|error| error.to_string())?;
        if range.is_zero() {
            return Err("expected a range such as 1h, more than 0".to_owned());
        }
        Ok(Self(PlannedQuestion { kind, per_second: per_hour / 3_600.0, range_seconds: range.as_secs_f64() }))
    }
}

/// A time of a disk, 0 included.
fn read_time(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// A number of cores.
fn core_count(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|count| (1..=CORES_MAX).contains(count));
    count.ok_or_else(|| {
        format!("expected a whole number of cores from 1 to {CORES_MAX}; --cpu-limit takes parts of one")
    })
}

/// A number above 0.
fn factor(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && (1e-6..=1e9).contains(number));
    number.ok_or_else(|| "expected a number above 0, such as 1.5".to_owned())
}

/// `SIZE` or `SIZE/s` per second, or `SIZE/d` per day.
fn byte_rate(text: &str) -> Result<f64, String> {
    let (size, seconds) = match text.rsplit_once('/') {
        None => (text, 1.0),
        Some((size, "s")) => (size, 1.0),
        Some((size, "d" | "day")) => (size, 86_400.0),
        Some(_) => return Err("expected a rate such as 10MB, 10MB/s or 800GB/d".to_owned()),
    };
    let size: ByteSize = size.parse().map_err(str::to_owned)?;
    if size.0 == 0 { Err("expected a rate above 0".to_owned()) } else { Ok(size.0 as f64 / seconds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_size_that_the_head_room_of_a_node_assumes() {
        let command = PlanArgs::augment_args(clap::Command::new("plan"));
        let flag = command.get_arguments().find(|flag| flag.get_id() == "request_bytes").unwrap();
        let size: ByteSize = flag.get_default_values()[0].to_str().unwrap().parse().unwrap();
        assert_eq!(size.0 as f64, bucksaw_capacity::HeadRoom::REQUEST_BYTES);
    }

    #[test]
    fn rates_parse() {
        let check = |text: &str, want: Option<f64>| assert_eq!(byte_rate(text).ok(), want, "{text}");
        check("10MB", Some(10_485_760.0));
        check("10MB/s", Some(10_485_760.0));
        check("86400/d", Some(1.0));
        for bad in ["0", "MB", "10MB/h", "/d", "-1", "10MB/"] {
            check(bad, None);
        }
    }

    #[test]
    fn cores_are_whole() {
        assert_eq!((core_count("1"), core_count("64")), (Ok(1), Ok(64)));
        for bad in ["0", "-1", "0.5", "100001", "many", ""] {
            assert!(core_count(bad).unwrap_err().contains("--cpu-limit"), "{bad}");
        }
    }

    #[test]
    fn questions_parse() {
        let QuestionFlag(question) = "word:3600:1h".parse().unwrap();
        assert_eq!(question, PlannedQuestion { kind: QuestionKind::Word, per_second: 1.0, range_seconds: 3_600.0 });
        for bad in
            ["", "word", "word:1", "words:1:1h", "word:0:1h", "word:-1:1h", "word:nan:1h", "word:1:0s", "word:1:1h:2"]
        {
            assert!(bad.parse::<QuestionFlag>().is_err(), "{bad}");
        }
    }
}
