//! Times as typed by users and as written in records.
#![no_main]
use bucksaw_record::{Flags, Millis, time};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = time::event_time_text(data);
    let mut reader = time::LineTimeReader::new(time::TimeZone::UTC);
    let mut times = Vec::new();
    let parts = data.split_at(data.len() / 2);
    reader.read(&[parts.0, parts.1], &Flags::empty(), Millis(1_700_000_000_000), &mut times);
    assert_eq!(times.len(), data.iter().filter(|byte| **byte == b'\n').count());
    if let Ok(text) = str::from_utf8(data) {
        let _ = time::event_time_number(text);
        let _ = time::parse_duration(text);
        let zone = time::parse_zone(text).unwrap_or(time::TimeZone::UTC);
        let _ = time::parse_timestamp("today 02:30", Millis(1_700_000_000_000), &zone);
        if let Ok(at) = time::parse_timestamp(text, Millis(1_700_000_000_000), &time::TimeZone::UTC) {
            let printed = time::format_rfc3339(at, 0);
            assert_eq!(time::event_time_text(printed.as_bytes()).map(|(at, _)| at), Some(at), "{text}");
        }
    }
});
