//! The counters of a node, as its metrics have them.

use bucksaw_capacity::WorkCounters;

use crate::plan::metrics_text::value;

/// Reads the metrics of a node; `None` if they lack one that every node has.
pub(crate) fn parse_counters(metrics: &str) -> Option<WorkCounters> {
    let of = |name: &str| value(metrics, name);
    Some(WorkCounters {
        cpu_seconds: of("process_cpu_seconds_total")?,
        accepted_bytes: of("bucksaw_ingest_bytes_total")?,
        accepted_records: of("bucksaw_ingest_records_total")?,
        gathered_bytes: of("bucksaw_store_gathered_bytes_total").unwrap_or_default(),
        received_bytes: of("bucksaw_store_received_bytes_total").unwrap_or_default(),
        merged_bytes: of("bucksaw_store_compacted_bytes_total").unwrap_or_default(),
        questions: of("bucksaw_query_seconds_count")?,
        question_seconds: of("bucksaw_query_seconds_sum")?,
        scanned_bytes: of("bucksaw_query_scanned_bytes_total")?,
        commits: of("bucksaw_ingest_sync_seconds_count").unwrap_or_default(),
        commit_seconds: of("bucksaw_ingest_sync_seconds_sum").unwrap_or_default(),
        stored_bytes: of("bucksaw_store_stored_bytes").unwrap_or_default(),
        text_bytes: of("bucksaw_store_text_bytes").unwrap_or_default(),
        disk_free_bytes: of("bucksaw_disk_free_bytes")?,
        disk_reserve_bytes: of("bucksaw_disk_reserve_bytes").unwrap_or_default(),
        cores: of("bucksaw_cores")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "process_cpu_seconds_total 10\nbucksaw_ingest_bytes_total{source=\"tcp\"} 1000\n\
        bucksaw_ingest_bytes_total{source=\"http\"} 500\n\
        bucksaw_ingest_records_total 10\nbucksaw_query_seconds_count 2\nbucksaw_query_seconds_sum 0.5\n\
        bucksaw_query_scanned_bytes_total 100\nbucksaw_disk_free_bytes 5000\nbucksaw_cores 2\n\
        bucksaw_store_gathered_bytes_total 800\nbucksaw_store_received_bytes_total 12\n\
        bucksaw_store_compacted_bytes_total 13\n\
        bucksaw_store_stored_bytes 90\nbucksaw_store_text_bytes 900\nbucksaw_disk_reserve_bytes 70\n\
        bucksaw_ingest_sync_seconds_count 3\nbucksaw_ingest_sync_seconds_sum 0.25\n";

    #[test]
    fn counters_are_those_of_the_metrics() {
        let want = WorkCounters {
            cpu_seconds: 10.0,
            accepted_bytes: 1_500.0,
            accepted_records: 10.0,
            gathered_bytes: 800.0,
            received_bytes: 12.0,
            merged_bytes: 13.0,
            questions: 2.0,
            question_seconds: 0.5,
            scanned_bytes: 100.0,
            commits: 3.0,
            commit_seconds: 0.25,
            stored_bytes: 90.0,
            text_bytes: 900.0,
            disk_free_bytes: 5_000.0,
            disk_reserve_bytes: 70.0,
            cores: 2.0,
        };
        assert_eq!(parse_counters(METRICS), Some(want));
    }

    #[test]
    fn an_older_node_has_no_reserve_and_another_program_no_counters() {
        let older = METRICS.replace("bucksaw_disk_reserve_bytes 70\n", "");
        assert_eq!(parse_counters(&older).unwrap().disk_reserve_bytes, 0.0);
        assert_eq!(parse_counters("up 1\n"), None);
    }
}
