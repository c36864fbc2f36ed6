//! Metrics of ClickHouse as the store.

use bucksaw_env::metrics;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

metrics! {
    /// Counters and gauges of the calls of ClickHouse.
    pub struct Metrics {
        pub(crate) away: Gauge = "1 while the last call of ClickHouse failed";
        pub(crate) inserted_records: Counter = "Records inserted; those of a repeated insert count again";
        pub(crate) inserted_bytes: Counter = "Bytes of inserted rows";
        pub(crate) inserts: Counter = "Inserts that ClickHouse acknowledged";
        pub(crate) failed_batches: Counter = "Batches of queue segments that were not stored and are retried";
        pub(crate) failed_reads: Counter = "Reads for queries that failed, which makes their answers partial";
        pub(crate) reads: Counter = "Statements that queries started";
        pub(crate) spooled_bytes: Gauge = "Bytes of compressed rows that wait for ClickHouse in the directory clickhouse";
        pub(crate) spooled_pieces: Gauge = "Inserts that wait for ClickHouse in the directory clickhouse";
        pub(crate) damaged_pieces: Counter = "Waiting inserts that could not be read any more, which ClickHouse lacks";
    }
}

impl Metrics {
    pub(crate) fn count_insert(&self, records: u64, bytes: usize) {
        self.inserted_records.inc_by(records);
        self.inserted_bytes.inc_by(bytes as u64);
    }
}
