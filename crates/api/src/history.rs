//! Samples of some metrics over the last hour, for the charts of the page.
//!
//! They take about 70 kB of memory and are lost when the node stops. Names and values are the same as in the metrics.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use bucksaw_env::lock;
use bucksaw_record::{Millis, time};
use serde_json::{Value, json};

/// Interval of samples.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// One hour of samples.
const SAMPLES_MAX: usize = 720;

/// Sampled metrics. A metric with labels is summed.
const SERIES: [&str; 12] = [
    "bucksaw_ingest_records_total",
    "bucksaw_ingest_bytes_total",
    "bucksaw_ingest_refused_appends_total",
    "bucksaw_ingest_pending_bytes",
    "bucksaw_ingest_oldest_pending_seconds",
    "bucksaw_store_text_bytes",
    "bucksaw_store_stored_bytes",
    "bucksaw_store_backlog_bytes",
    "bucksaw_disk_free_bytes",
    "bucksaw_query_answers_total",
    "bucksaw_query_scanned_bytes_total",
    "bucksaw_query_in_flight",
];

/// Samples, oldest first.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<VecDeque<(Millis, [f64; SERIES.len()])>>);

impl History {
    /// Adds a sample, given all metrics as text.
    pub(crate) fn add(&self, at: Millis, metrics: &str) {
        let sample = (at, values(metrics));
        let mut samples = lock(&self.0);
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    pub(crate) fn describe(&self) -> Value {
        let samples = lock(&self.0);
        let times: Vec<String> = samples.iter().map(|(at, _)| time::format_rfc3339(*at, 0)).collect();
        let series = |(at, name): (usize, &&str)| {
            let values: Value = samples.iter().map(|(_, values)| values.get(at).copied()).collect();
            ((*name).to_owned(), values)
        };
        let series: serde_json::Map<String, Value> = SERIES.iter().enumerate().map(series).collect();
        json!({ "step_seconds": SAMPLE_INTERVAL.as_secs(), "times": times, "series": series })
    }
}

/// The values of the sampled metrics in OpenMetrics text.
fn values(text: &str) -> [f64; SERIES.len()] {
    let mut values = [0.0; SERIES.len()];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.rsplit_once(' ') else { continue };
        let name = name.split('{').next().unwrap_or_default();
        let index = SERIES.iter().position(|series| *series == name);
        if let (Some(sum), Ok(value)) = (index.and_then(|at| values.get_mut(at)), value.parse::<f64>()) {
            *sum += value;
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_summed_and_the_oldest_sample_is_dropped() {
        let text = "# HELP x\nbucksaw_ingest_records_total{source=\"tcp\"} 2\nbucksaw_ingest_records_total{source=\"http\"} 3\n\
            bucksaw_disk_free_bytes 7\nother 9\n# EOF\n";
        let history = History::default();
        for at in 0..SAMPLES_MAX as u64 + 2 {
            history.add(Millis(at), text);
        }
        let described = history.describe();
        assert_eq!(described["times"].as_array().unwrap().len(), SAMPLES_MAX);
        assert_eq!(described["times"][0], "1970-01-01T00:00:00.002000Z");
        assert_eq!(described["series"]["bucksaw_ingest_records_total"][0], 5.0);
        assert_eq!(described["series"]["bucksaw_disk_free_bytes"][0], 7.0);
        assert_eq!(described["series"]["bucksaw_query_in_flight"][0], 0.0);
    }
}
