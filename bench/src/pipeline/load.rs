//! What is measured: sources, stores, and the settings along each dimension.

use clap::ValueEnum;

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

/// The values along each dimension. The first of each is the base.
pub(super) struct PipelineAxes<'a> {
    pub(super) sources: &'a [PipelineSource],
    pub(super) commit_intervals: &'a [String],
    pub(super) fetch_bytes: &'a [u64],
    pub(super) batch_records: &'a [u64],
}

/// Each source to each store with the base settings; from Kafka, also each other value of one setting at a time.
pub(super) fn all(axes: &PipelineAxes<'_>) -> Vec<PipelineLoad> {
    let (Some(commit), Some(fetch), Some(batch)) =
        (axes.commit_intervals.first(), axes.fetch_bytes.first(), axes.batch_records.first())
    else {
        return Vec::new();
    };
    let mut loads = Vec::new();
    for source in axes.sources {
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
            let of_commits = axes.commit_intervals.iter().skip(1);
            loads.extend(of_commits.map(|interval| PipelineLoad { commit_interval: interval.clone(), ..base.clone() }));
            let of_fetches = axes.fetch_bytes.iter().skip(1);
            loads.extend(of_fetches.map(|bytes| PipelineLoad { fetch_bytes: *bytes, ..base.clone() }));
            let of_batches = axes.batch_records.iter().skip(1);
            loads.extend(of_batches.map(|records| PipelineLoad { batch_records: *records, ..base.clone() }));
        }
    }
    loads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_varies_alone_and_for_kafka_only() {
        let intervals = ["1s", "10s"].map(str::to_owned);
        let axes = PipelineAxes {
            sources: &[PipelineSource::Kafka, PipelineSource::Http],
            commit_intervals: &intervals,
            fetch_bytes: &[1, 2, 3],
            batch_records: &[7],
        };
        let names: Vec<String> = all(&axes).iter().map(PipelineLoad::name).collect();
        assert_eq!(
            names,
            [
                "kafka to segments batch 7 commit 1s fetch 1",
                "kafka to segments batch 7 commit 10s fetch 1",
                "kafka to segments batch 7 commit 1s fetch 2",
                "kafka to segments batch 7 commit 1s fetch 3",
                "kafka to clickhouse batch 7 commit 1s fetch 1",
                "kafka to clickhouse batch 7 commit 10s fetch 1",
                "kafka to clickhouse batch 7 commit 1s fetch 2",
                "kafka to clickhouse batch 7 commit 1s fetch 3",
                "http to segments batch 7",
                "http to clickhouse batch 7",
            ]
        );
    }
}
