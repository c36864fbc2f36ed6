//! Records and stats as bytes.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bucksaw_query::{Histogram, Level, Missing, RecordRef, Run, Stats};
use bucksaw_record::{Id, Marks, time};
use bytes::Bytes;
use serde_json::{Value, json};

/// `{"id","time","labels":{},"line"}`; bytes that are not UTF-8 stand in `line_base64`. What is marked says so.
pub(crate) fn object(record: RecordRef<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"id\":\"");
    out.extend_from_slice(record.id.to_string().as_bytes());
    out.extend_from_slice(b"\",\"time\":\"");
    time::write_rfc3339(out, record.id.at(), record.nanos);
    out.extend_from_slice(b"\",\"labels\":{");
    for (at, (name, value)) in record.labels.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        string(out, name);
        out.push(b':');
        string(out, value);
    }
    out.push(b'}');
    for (bit, name) in [(Marks::CUT, "cut"), (Marks::OPEN, "unterminated")] {
        if record.marks & bit != 0 {
            out.extend_from_slice(format!(",\"{name}\":true").as_bytes());
        }
    }
    match str::from_utf8(record.text) {
        Ok(line) => {
            out.extend_from_slice(b",\"line\":");
            string(out, line);
        }
        Err(_) => {
            out.extend_from_slice(b",\"line_base64\":\"");
            out.extend_from_slice(BASE64_STANDARD.encode(record.text).as_bytes());
            out.push(b'"');
        }
    }
    out.push(b'}');
}

fn string(out: &mut Vec<u8>, text: &str) {
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// Runs of fewer bytes are copied: a run that is shared keeps all that was found beside it in memory, until it is sent.
const SHARED_BYTES_MIN: usize = 64 << 10;

/// Records as they came in: each followed by an LF, but where the source had none: between the parts of a record that was
/// cut, and after a last record that came without.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    /// The last record, when it is marked.
    before: Option<(Id, u8)>,
    pieces: Vec<Bytes>,
    /// What comes behind the pieces.
    copied: Vec<u8>,
}

impl Raw {
    pub(crate) fn push(&mut self, run: Run<'_>) {
        if let Some((id, marks)) = self.before.take() {
            let goes_on = marks & Marks::CUT != 0 && id.is_followed_by(run.first);
            if !goes_on {
                self.copied.push(b'\n');
            }
        }
        if run.marks & (Marks::CUT | Marks::OPEN) != 0 {
            // Its LF is written when it is known what follows.
            self.copied.extend_from_slice(run.lines.strip_suffix(b"\n").unwrap_or(run.lines));
            self.before = Some((run.last, run.marks));
        } else if run.lines.len() < SHARED_BYTES_MIN {
            self.copied.extend_from_slice(run.lines);
        } else {
            self.close_copied();
            self.pieces.push(run.share());
        }
    }

    /// What was pushed since this was called before.
    pub(crate) fn take(&mut self) -> Vec<Bytes> {
        self.close_copied();
        std::mem::take(&mut self.pieces)
    }

    fn close_copied(&mut self) {
        if !self.copied.is_empty() {
            self.pieces.push(std::mem::take(&mut self.copied).into());
        }
    }
}

/// What an answer rests on.
pub(crate) fn stats(stats: &Stats, seconds: f64) -> Value {
    json!({
        "matched": stats.matched,
        "segments_read": stats.segments_read,
        "segments_skipped": stats.segments_skipped,
        "bytes_scanned": stats.bytes_scanned,
        "bytes_skipped": stats.bytes_skipped,
        "seconds": (seconds * 1e6).round() / 1e6,
        "nodes_asked": stats.nodes.asked,
        "nodes_answered": stats.nodes.answered,
        "nodes_missing": stats.nodes.missing.iter().map(missing).collect::<Vec<_>>(),
        "damaged": stats.damaged,
        "trashed_segments": stats.trashed.segments,
        "trashed_records": stats.trashed.records,
        "timed_out": stats.timed_out.is_some(),
        "partial": stats.is_partial(),
        "partial_reasons": stats.partial_reasons(),
    })
}

fn missing(missing: &Missing) -> Value {
    json!({ "node": missing.node, "address": missing.address, "why": missing.why.word(), "message": missing.to_string() })
}

/// The stretches of a histogram; of levels those that were found.
pub(crate) fn buckets(histogram: &Histogram) -> Vec<Value> {
    let bucket = |bucket: &bucksaw_query::Bucket| {
        let at = |time| time::format_rfc3339(time, 0);
        let mut object = json!({ "from": at(bucket.from), "to": at(bucket.to), "count": bucket.count });
        if let Some(levels) = bucket.levels {
            let found = Level::ALL.iter().zip(levels).filter(|(_, count)| *count > 0);
            object["levels"] = found.map(|(level, count)| (level.name().to_owned(), Value::from(count))).collect();
        }
        object
    };
    histogram.buckets.iter().map(bucket).collect()
}
