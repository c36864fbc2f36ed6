//! The event time in an NDJSON record.

use std::fmt;

use bucksaw_record::time::{self, EVENT_TIME_KEYS as KEYS};
use serde::de::{Deserializer as _, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::intake::RecordTime;

/// Checks that a line is a JSON object, and returns its event time.
///
/// # Errors
/// Why the line is no JSON object.
pub fn event_time(line: &[u8]) -> Result<Option<RecordTime>, serde_json::Error> {
    // JSON is UTF-8; the parser checks that only in text that it returns.
    let line = str::from_utf8(line).map_err(serde_json::Error::custom)?;
    let mut json = serde_json::Deserializer::from_str(line);
    let times = json.deserialize_map(EventTimesVisitor)?;
    json.end()?;
    Ok(times.into_iter().flatten().next())
}

struct EventTimesVisitor;

impl<'de> Visitor<'de> for EventTimesVisitor {
    type Value = [Option<RecordTime>; KEYS.len()];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut times = [None; KEYS.len()];
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match KEYS.iter().position(|known| *known == key).and_then(|at| times.get_mut(at)) {
                Some(place) => *place = parse_time(map.next_value::<&RawValue>()?.get()),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(times)
    }
}

fn parse_time(json: &str) -> Option<RecordTime> {
    if !json.starts_with('"') {
        return time::event_time_number(json);
    }
    // Times need no escapes; the parser also accepts those that have some.
    let text: String = serde_json::from_str(json).ok()?;
    time::event_time_text(text.as_bytes()).or_else(|| time::event_time_number(text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_times_are_found_and_other_lines_are_rejected() {
        let check = |line: &str, want: Option<u64>| {
            assert_eq!(event_time(line.as_bytes()).unwrap().map(|(at, _)| at.0), want, "{line}");
        };
        check(r#"{"a":1}"#, None);
        check(r#"{"a":{"time":1},"time":"2023-11-14T22:13:20.5Z"}"#, Some(1_700_000_000_500));
        check(r#"{"ts":1700000000.25,"x":[1,{"y":2}]}"#, Some(1_700_000_000_250));
        check(r#"{"@timestamp":"1700000000"}"#, Some(1_700_000_000_000));
        check(r#"{"ts":1,"timestamp":1700000000000}"#, Some(1_700_000_000_000));
        check(r#"{"time":"yesterday","ts":1700000000}"#, Some(1_700_000_000_000));
        check(r#"{"time":null}"#, None);
        check(r#" {"ti\u006de":1700000000} "#, Some(1_700_000_000_000));
        for bad in ["", "x", "[1]", "1", "{", r#"{"a":1} x"#, r#"{"a":}"#] {
            assert!(event_time(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(event_time(b"{\"a\":\"\xff\"}").is_err());
        assert!(event_time("[".repeat(100_000).as_bytes()).is_err());
    }
}
