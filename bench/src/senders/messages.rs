//! Requests of other log systems with many lines.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use prost::Message;

use crate::decode;

/// Loki's `PushRequest`.
#[derive(Clone, PartialEq, Message)]
struct PushMessage {
    #[prost(message, repeated, tag = "1")]
    streams: Vec<PushedLines>,
}

#[derive(Clone, PartialEq, Message)]
struct PushedLines {
    #[prost(string, tag = "1")]
    labels: String,
    #[prost(message, repeated, tag = "2")]
    entries: Vec<PushEntry>,
}

#[derive(Clone, PartialEq, Message)]
struct PushEntry {
    #[prost(message, optional, tag = "1")]
    time: Option<PushTime>,
    #[prost(string, tag = "2")]
    line: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct PushTime {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// The current time in nanoseconds, which grows by a microsecond with each line.
fn times() -> impl Iterator<Item = u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_micros() as u64);
    (now..).map(|micros| micros * 1_000)
}

pub(super) fn loki(lines: &[&str]) -> anyhow::Result<Vec<u8>> {
    let entry = |(nanos, line): (u64, &&str)| PushEntry {
        time: Some(PushTime { seconds: (nanos / 1_000_000_000) as i64, nanos: (nanos % 1_000_000_000) as i32 }),
        line: (*line).to_owned(),
    };
    let stream = PushedLines {
        labels: r#"{app="shop", env="prod"}"#.to_owned(),
        entries: times().zip(lines).map(entry).collect(),
    };
    let push = PushMessage { streams: vec![stream] }.encode_to_vec();
    snap::raw::Encoder::new().compress_vec(&push).context("snappy")
}

pub(super) fn elasticsearch(lines: &[&str]) -> Vec<u8> {
    let mut body = String::new();
    for (nanos, line) in times().zip(lines) {
        let time = jiff::Timestamp::from_microsecond((nanos / 1_000) as i64).unwrap_or_default();
        let message = serde_json::Value::from(*line);
        body.push_str("{\"create\":{\"_index\":\"logs\"}}\n");
        body.push_str(&format!("{{\"@timestamp\":\"{time}\",\"app\":\"shop\",\"message\":{message}}}\n"));
    }
    body.into_bytes()
}

pub(super) fn otlp(lines: &[&str]) -> Vec<u8> {
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let mut request = decode::request(&lines);
    let records = request.resource_logs.iter_mut().flat_map(|logs| &mut logs.scope_logs);
    for (record, nanos) in records.flat_map(|logs| &mut logs.log_records).zip(times()) {
        record.time_unix_nano = nanos;
    }
    request.encode_to_vec()
}

pub(super) fn syslog(lines: &[&str]) -> Vec<u8> {
    let mut stream = Vec::new();
    for (nanos, line) in times().zip(lines) {
        let time = jiff::Timestamp::from_microsecond((nanos / 1_000) as i64).unwrap_or_default();
        let message = format!("<134>1 {time} web1 shop 77 - - {line}");
        stream.extend_from_slice(format!("{} {message}", message.len()).as_bytes());
    }
    stream
}

/// A packed message: the entries one after the other.
pub(super) fn fluent(lines: &[&str]) -> anyhow::Result<Vec<u8>> {
    let (mut entries, mut message) = (Vec::new(), Vec::new());
    for (nanos, line) in times().zip(lines) {
        rmp::encode::write_array_len(&mut entries, 2)?;
        rmp::encode::write_ext_meta(&mut entries, 8, 0)?;
        entries.extend_from_slice(&((nanos / 1_000_000_000) as u32).to_be_bytes());
        entries.extend_from_slice(&((nanos % 1_000_000_000) as u32).to_be_bytes());
        rmp::encode::write_map_len(&mut entries, 2)?;
        rmp::encode::write_str(&mut entries, "log")?;
        rmp::encode::write_str(&mut entries, line)?;
        rmp::encode::write_str(&mut entries, "stream")?;
        rmp::encode::write_str(&mut entries, "stdout")?;
    }
    rmp::encode::write_array_len(&mut message, 2)?;
    rmp::encode::write_str(&mut message, "kube.shop")?;
    rmp::encode::write_bin(&mut message, &entries)?;
    Ok(message)
}
