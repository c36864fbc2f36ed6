//! What is measured: sources, stores, and the settings along each dimension.

use clap::ValueEnum;

use super::PipelineArgs;

/// Where records come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PipelineSource {
    /// A topic, which the node reads
    Kafka,
    /// Bodies of lines over HTTP, from `bucksaw generate`
    Http,
    /// OTLP over gRPC, from this process
    Grpc,
    /// The framed protocol, from `bucksaw generate`
    Framed,
}

/// Where records go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PipelineStore {
    Segments,
    ClickHouse,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PipelineLoad {
    pub(super) source: PipelineSource,
    pub(super) store: PipelineStore,
    pub(super) commit_interval: String,
    pub(super) fetch_bytes: u64,
    pub(super) batch_records: u64,
}

impl PipelineLoad {
    /// A name that tells the runs apart.
    pub(super) fn name(&self) -> String {
        let source = self.source.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        let store = match self.store {
            PipelineStore::Segments => "segments",
            PipelineStore::ClickHouse => "clickhouse",
        };
        let kafka = match self.source {
            PipelineSource::Kafka => format!(" commit {} fetch {}", self.commit_interval, self.fetch_bytes),
            _ => String::new(),
        };
        format!("{source} to {store} batch {}{kafka}", self.batch_records)
    }
}

/// Each source to each store with the base settings; from Kafka, also each other value of one setting at a time.
pub(super) fn all(args: &PipelineArgs) -> Vec<PipelineLoad> {
    let (Some(commit), Some(fetch), Some(batch)) =
        (args.commit_intervals.first(), args.fetch_bytes.first(), args.batch_records.first())
    else {
        return Vec::new();
    };
    let mut loads = Vec::new();
    for source in &args.sources {
        for store in [PipelineStore::Segments, PipelineStore::ClickHouse] {
            let base = PipelineLoad {
                source: *source,
                store,
                commit_interval: commit.clone(),
                fetch_bytes: *fetch,
                batch_records: *batch,
            };
            loads.push(base.clone());
            if *source != PipelineSource::Kafka {
                continue;
            }
            let of_commits = args.commit_intervals.iter().skip(1);
            loads.extend(of_commits.map(|interval| PipelineLoad { commit_interval: interval.clone(), ..base.clone() }));
            let of_fetches = args.fetch_bytes.iter().skip(1);
            loads.extend(of_fetches.map(|bytes| PipelineLoad { fetch_bytes: *bytes, ..base.clone() }));
            let of_batches = args.batch_records.iter().skip(1);
            loads.extend(of_batches.map(|records| PipelineLoad { batch_records: *records, ..base.clone() }));
        }
    }
    loads
}
