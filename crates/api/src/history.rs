//! `GET /api/v1/history`: how the node was over the last hour, for charts: some of its metrics, every few seconds.
//!
//! It is kept in memory, some 70 kB, and begins anew with the node: who wants more collects `/metrics`. What is kept are
//! the metrics' own figures under their own names, so that there is one truth and counters can be made into rates.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use bucksaw_record::{Millis, time};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::app::App;

/// How often the metrics are looked at.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// An hour of them.
const SAMPLES_MAX: usize = 720;

/// What is kept. Of a metric with labels, the sum.
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

/// What was seen, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<VecDeque<MetricsSample>>);

#[derive(Debug)]
struct MetricsSample {
    at: Millis,
    values: [f64; SERIES.len()],
}

/// Looks at the metrics now and then, until the node is stopping.
pub(crate) async fn sample_metrics(app: App, mut stop: watch::Receiver<bool>) {
    let mut step = tokio::time::interval(SAMPLE_INTERVAL);
    step.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = step.tick() => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        let mut text = String::new();
        if prometheus_client::encoding::text::encode(&mut text, &app.registry).is_ok() {
            app.history.push(MetricsSample { at: app.now(), values: values(&text) });
        }
    }
}

pub(crate) async fn history(State(app): State<App>) -> Json<Value> {
    Json(app.history.describe())
}

impl History {
    fn push(&self, sample: MetricsSample) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    fn describe(&self) -> Value {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let times: Vec<String> = samples.iter().map(|sample| time::format_rfc3339(sample.at, 0)).collect();
        let series = |(at, name): (usize, &&str)| {
            let values: Value = samples.iter().map(|sample| sample.values.get(at).copied()).collect();
            ((*name).to_owned(), values)
        };
        let series: serde_json::Map<String, Value> = SERIES.iter().enumerate().map(series).collect();
        json!({ "step_seconds": SAMPLE_INTERVAL.as_secs(), "times": times, "series": series })
    }
}

/// The values of the series in a text of metrics.
fn values(text: &str) -> [f64; SERIES.len()] {
    let mut values = [0.0; SERIES.len()];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.rsplit_once(' ') else { continue };
        let name = name.split('{').next().unwrap_or_default();
        let place = SERIES.iter().position(|series| *series == name);
        if let (Some(sum), Ok(value)) = (place.and_then(|at| values.get_mut(at)), value.parse::<f64>()) {
            *sum += value;
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_summed_up_and_the_oldest_goes() {
        let text = "# HELP x\nbucksaw_ingest_records_total{source=\"tcp\"} 2\nbucksaw_ingest_records_total{source=\"http\"} 3\n\
            bucksaw_disk_free_bytes 7\nother 9\n# EOF\n";
        let history = History::default();
        for at in 0..SAMPLES_MAX as u64 + 2 {
            history.push(MetricsSample { at: Millis(at), values: values(text) });
        }
        let described = history.describe();
        assert_eq!(described["times"].as_array().unwrap().len(), SAMPLES_MAX);
        assert_eq!(described["times"][0], "1970-01-01T00:00:00.002000Z");
        assert_eq!(described["series"]["bucksaw_ingest_records_total"][0], 5.0);
        assert_eq!(described["series"]["bucksaw_disk_free_bytes"][0], 7.0);
        assert_eq!(described["series"]["bucksaw_query_in_flight"][0], 0.0);
    }
}
