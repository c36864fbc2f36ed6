//! Event times of NDJSON lines: every JSON object is accepted, and only its time fields state a time.
#![no_main]
use bucksaw_sources::http::event_time;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let found = event_time(data);
    let parsed = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(data);
    if let Ok(object) = &parsed {
        assert!(found.is_ok(), "an object is refused: {}", data.escape_ascii());
        let times = ["time", "timestamp", "@timestamp", "ts"];
        if times.iter().all(|field| !object.contains_key(*field)) {
            assert_eq!(found.unwrap(), None);
        }
    }
});
