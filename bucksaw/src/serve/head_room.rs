//! The head-room of this node in its status, by the same code as `bucksaw plan --live`; `docs/http.md` lists the fields.
//!
//! The counters are those of the metrics, which the API reads every few seconds anyway, and the costs are the built-in ones.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_api::StatusPart;
use bucksaw_capacity::{Calibration, HeadRoom, HeadRoomWindow, RecentHeadRoom, Resource};
use bucksaw_env::lock;
use serde_json::{Value, json};

use crate::plan::{built_in_calibration, parse_counters};

/// The part of a node that has just started.
///
/// # Errors
/// The built-in calibration cannot be used.
pub(super) fn part() -> anyhow::Result<Arc<dyn StatusPart>> {
    Ok(Arc::new(HeadRoomPart { calibration: built_in_calibration()?, window: Mutex::default() }))
}

#[derive(Debug)]
struct HeadRoomPart {
    calibration: Calibration,
    window: Mutex<HeadRoomWindow>,
}

impl StatusPart for HeadRoomPart {
    fn key(&self) -> &'static str {
        "head_room"
    }

    fn value(&self) -> Value {
        let room = lock(&self.window).head_room(&self.calibration, HeadRoom::REQUEST_BYTES);
        room.map_or(Value::Null, |room| describe(&room))
    }

    fn observe(&self, uptime: Duration, metrics: &str) {
        if let Some(counters) = parse_counters(metrics) {
            lock(&self.window).add(uptime, counters);
        }
    }
}

/// JSON has no infinite number: `null` is in its place.
fn describe(recent: &RecentHeadRoom) -> Value {
    let RecentHeadRoom { room, seconds, disk_seconds, disk_growth } = recent;
    json!({
        "seconds": seconds,
        "cores": room.cores,
        "cpu_cores": room.cpu_measured,
        "cpu_cores_predicted": room.cpu_predicted,
        "cpu_full_at_load_factor": room.cpu_factor,
        "disk_seconds": disk_seconds,
        "disk_growth_bytes_per_second": disk_seconds.map(|_| disk_growth),
        "disk_full_in_seconds": room.disk_full_seconds,
        "limited_by": room.limited_by().map(Resource::name),
        "small": room.small().map(Resource::name).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use bucksaw_env::Env;

    use super::super::metrics::Metrics;
    use super::*;

    /// The metrics of a node at an uptime: it uses 1.8 of 2 cores and fills a disk of 1 MB by 100 bytes per second.
    fn metrics(uptime: u64) -> String {
        format!(
            "process_cpu_seconds_total {}\nbucksaw_ingest_bytes_total 0\nbucksaw_ingest_records_total 0\n\
             bucksaw_query_seconds_count 0\nbucksaw_query_seconds_sum 0\nbucksaw_query_scanned_bytes_total 0\n\
             bucksaw_disk_free_bytes {}\nbucksaw_cores 2\n",
            uptime as f64 * 1.8,
            1_000_000 - uptime * 100
        )
    }

    #[test]
    fn the_status_has_the_head_room_once_it_is_known() {
        let part = part().unwrap();
        assert_eq!((part.key(), part.value()), ("head_room", Value::Null));
        let observe = |until: u64| {
            for at in (0..=until).step_by(10) {
                part.observe(Duration::from_secs(at), &metrics(at));
            }
            part.value()
        };
        assert_eq!(observe(20), Value::Null);
        let found = observe(60);
        assert_eq!((&found["seconds"], &found["disk_seconds"]), (&json!(60.0), &Value::Null));
        assert_eq!((&found["disk_full_in_seconds"], &found["small"]), (&Value::Null, &json!(["CPU"])));
        let found = observe(600);
        assert!((found["cpu_full_at_load_factor"].as_f64().unwrap() - 2.0 / 1.8).abs() < 1e-9, "{found}");
        let base_cores = built_in_calibration().unwrap().base_cores;
        let rest = json!({
            "seconds": 60.0, "cores": 2.0, "cpu_cores_predicted": base_cores, "disk_seconds": 600.0,
            "disk_growth_bytes_per_second": 100.0, "disk_full_in_seconds": 9_400.0, "limited_by": "disk space",
            "small": ["CPU", "disk space"],
        });
        for (name, value) in rest.as_object().unwrap() {
            assert_eq!(&found[name], value, "{name}");
        }
    }

    #[test]
    fn the_metrics_of_a_node_without_load_have_all_counters() {
        let (metrics, registry) = Metrics::new(&Env::real());
        metrics.disk_reserve_bytes.set(7);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let counters = parse_counters(&text).unwrap();
        assert!(counters.cores >= 1.0 && counters.cpu_seconds > 0.0, "{counters:?}");
        assert_eq!((counters.disk_reserve_bytes, counters.accepted_bytes), (7.0, 0.0));
    }

    #[test]
    fn the_fields_are_those_of_the_document() {
        let room =
            HeadRoom { cores: 2.0, cpu_measured: 0.0, cpu_predicted: 0.0, cpu_factor: 1.0, disk_full_seconds: 1.0 };
        let value = describe(&RecentHeadRoom { room, seconds: 60.0, disk_seconds: None, disk_growth: 0.0 });
        let document = include_str!("../../../docs/http.md");
        let missing = |name: &&String| !document.contains(&format!("`{name}`"));
        assert_eq!(value.as_object().unwrap().keys().filter(missing).collect::<Vec<_>>(), Vec::<&String>::new());
    }
}
