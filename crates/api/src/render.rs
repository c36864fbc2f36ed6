//! Renders records, statistics, buckets and fields.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bucksaw_query::{
    Bucket, FieldKind, FieldValue, FieldValues, MissingNode, NumberRange, OwnedRecord, QueryStats, RecordRef, RecordRun,
};
use bucksaw_record::{Flags, Id, Millis, time};
use bytes::Bytes;
use serde_json::{Value, json};

/// Appends `{"id","time","labels":{},"attributes":{},"line"}`: without attributes if there are none, and with the flags that are
/// set. A line or a value that is not UTF-8 is Base64: `line_base64`, `attributes_base64`.
fn object(record: RecordRef<'_>, out: &mut Vec<u8>) {
    head(record, out);
    if record.view.shape().is_some() {
        for part in parts(record) {
            out.extend_from_slice(&part.before);
            text(out, record.view.text().get(part.text).unwrap_or_default(), part.is_text);
        }
    } else {
        let line = record.view.line();
        let is_text = str::from_utf8(line).is_ok();
        out.extend_from_slice(&before_line(record.flags, is_text));
        text(out, line, is_text);
    }
    out.push(b'}');
}

/// Appends an object with these bytes around it, or returns it if it is long and must be rendered in pieces.
pub(crate) fn write_object(
    record: RecordRef<'_>,
    before: &'static [u8],
    after: &'static [u8],
    out: &mut Vec<u8>,
) -> Option<LongRecord> {
    let long = LongRecord::if_long(record, before, after);
    if long.is_none() {
        out.extend_from_slice(before);
        object(record, out);
        out.extend_from_slice(after);
    }
    long
}

/// Appends an object up to its labels.
fn head(record: RecordRef<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"id\":\"");
    out.extend_from_slice(record.id.to_string().as_bytes());
    out.extend_from_slice(b"\",\"time\":\"");
    time::write_rfc3339(out, record.id.time(), record.nanos);
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
}

/// A string of an object.
#[derive(Clone, Debug)]
struct ObjectPart {
    /// The JSON between it and the string before.
    before: Vec<u8>,
    /// Where it is in the text of the record.
    text: Range<usize>,
    /// Whether it is UTF-8, not Base64.
    is_text: bool,
}

/// The values of the attributes, and the line. Of two attributes with a name the last counts, as in a filter.
fn parts(record: RecordRef<'_>) -> Vec<ObjectPart> {
    let (line, names) = (record.view.line(), record.view.names());
    let mut end = line.len();
    let mut values: Vec<(&str, ObjectPart)> = Vec::new();
    for (at, (name, value)) in record.view.attributes().into_iter().enumerate() {
        let text = end + 1..end + 1 + value.len();
        end = text.end;
        if names.and_then(|names| names.position(name)) == Some(at) {
            values.push((name, ObjectPart { before: Vec::new(), text, is_text: str::from_utf8(value).is_ok() }));
        }
    }
    // Those that are text first; otherwise in order.
    values.sort_by_key(|(_, part)| !part.is_text);
    let (mut parts, mut opened) = (Vec::with_capacity(values.len() + 1), None);
    for (name, mut part) in values {
        if opened != Some(part.is_text) {
            let close: &[u8] = if opened.is_some() { b"}" } else { b"" };
            let open: &[u8] = if part.is_text { b",\"attributes\":{" } else { b",\"attributes_base64\":{" };
            part.before = [close, open].concat();
            opened = Some(part.is_text);
        } else {
            part.before.push(b',');
        }
        string(&mut part.before, name);
        part.before.push(b':');
        parts.push(part);
    }
    let is_text = str::from_utf8(line).is_ok();
    let mut before = if opened.is_some() { b"}".to_vec() } else { Vec::new() };
    before.extend_from_slice(&before_line(record.flags, is_text));
    parts.push(ObjectPart { before, text: 0..line.len(), is_text });
    parts
}

/// The flags that are set, and the name of the line.
fn before_line(flags: u8, is_text: bool) -> Cow<'static, [u8]> {
    let name: &[u8] = if is_text { b",\"line\":" } else { b",\"line_base64\":" };
    if flags == 0 {
        return Cow::Borrowed(name);
    }
    let mut before = String::new();
    for (bit, name) in [(Flags::CUT, "cut"), (Flags::UNTERMINATED, "unterminated")] {
        if flags & bit != 0 {
            before.push_str(&format!(",\"{name}\":true"));
        }
    }
    Cow::Owned([before.as_bytes(), name].concat())
}

/// Appends a string of bytes, which is UTF-8 or becomes Base64.
fn text(out: &mut Vec<u8>, bytes: &[u8], is_text: bool) {
    match str::from_utf8(bytes) {
        Ok(text) if is_text => string(out, text),
        _ => {
            out.push(b'"');
            out.extend_from_slice(BASE64_STANDARD.encode(bytes).as_bytes());
            out.push(b'"');
        }
    }
}

/// Limit of records that are rendered whole; longer ones are rendered in pieces.
const WHOLE_BYTES_MAX: usize = 16 << 10;

/// Bytes of a long string that are rendered at a time: a multiple of three, so that base64 has no padding in between.
const STEP_BYTES: usize = 9 << 10;

/// Size at which a piece of a long record is complete.
const LONG_PIECE_BYTES: usize = 64 << 10;

/// The object of a long record, in pieces. JSON may be six times as long as the text, and a stream buffers several
/// pieces for a stalled reader.
#[derive(Clone, Debug)]
pub(crate) struct LongRecord {
    record: Arc<OwnedRecord>,
    parts: Arc<[ObjectPart]>,
    /// The part to render next, and how many bytes of its text were rendered; `None` before its start.
    next: (usize, Option<usize>),
    before: &'static [u8],
    /// Bytes to append to the object; empty once they were rendered.
    after: &'static [u8],
}

impl LongRecord {
    /// `None` if the record is short. `before` and `after`, which is not empty, surround the object.
    fn if_long(record: RecordRef<'_>, before: &'static [u8], after: &'static [u8]) -> Option<Self> {
        let is_long = record.view.text().len() > WHOLE_BYTES_MAX;
        is_long.then(|| {
            let (parts, record) = (parts(record).into(), Arc::new(record.to_owned_record()));
            Self { record, parts, next: (0, None), before, after }
        })
    }

    /// Length of the remaining pieces.
    pub(crate) fn remaining_bytes(&self) -> usize {
        self.clone().map(|piece| piece.len()).sum()
    }

    /// Renders the next bytes of a part; `false` after the last one.
    fn render_step(&mut self, out: &mut Vec<u8>) -> bool {
        let (number, at) = self.next;
        let Some(part) = self.parts.get(number) else { return false };
        let Some(at) = at else {
            out.extend_from_slice(&part.before);
            out.push(b'"');
            self.next = (number, Some(part.text.start));
            return true;
        };
        let rest = self.record.text.get(at..part.text.end).unwrap_or_default();
        let step = rest.get(..STEP_BYTES).unwrap_or(rest);
        if step.is_empty() {
            out.push(b'"');
            self.next = (number + 1, None);
            return true;
        }
        let length = if part.is_text {
            // A character that does not end within the step belongs to the next step.
            let whole = step.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            let begin = out.len();
            string(out, whole);
            // Without the quotes.
            out.pop();
            out.remove(begin);
            whole.len()
        } else {
            out.extend_from_slice(BASE64_STANDARD.encode(step).as_bytes());
            step.len()
        };
        self.next = (number, Some(at + length.max(1)));
        true
    }
}

impl Iterator for LongRecord {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.after.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        if self.next == (0, None) {
            out.extend_from_slice(self.before);
            head(self.record.as_ref().as_ref(), &mut out);
        }
        while out.len() < LONG_PIECE_BYTES {
            if !self.render_step(&mut out) {
                out.push(b'}');
                out.extend_from_slice(std::mem::take(&mut self.after));
                break;
            }
        }
        Some(out)
    }
}

/// Writes a sequence of objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectWriter {
    /// Written before the next object.
    before: &'static [u8],
    /// Written before the objects after it.
    between: &'static [u8],
}

impl ObjectWriter {
    /// One object per line.
    pub(crate) const LINES: Self = Self { before: b"", between: b"" };

    /// Items of a JSON list.
    pub(crate) const LIST: Self = Self { before: b"", between: b"," };

    /// Writes the next record, or returns it if it is long and must be rendered in pieces.
    pub(crate) fn write(&mut self, record: RecordRef<'_>, out: &mut Vec<u8>) -> Option<LongRecord> {
        write_object(record, std::mem::replace(&mut self.before, self.between), b"\n", out)
    }
}

pub(crate) fn begin_list(name: &str) -> Vec<u8> {
    format!("{{\"{name}\":[").into_bytes()
}

pub(crate) fn end_list(stats: &Value) -> Vec<u8> {
    format!("],\"stats\":{stats}}}\n").into_bytes()
}

/// A document with a list, in pieces that are rendered on demand. `end` follows the last item.
pub(crate) fn document(name: &str, items: impl Iterator<Item = Value>, end: Vec<u8>) -> impl Iterator<Item = Vec<u8>> {
    let items = items.enumerate().map(|(at, item)| if at == 0 { item.to_string() } else { format!(",{item}") });
    let mut parts = [begin_list(name)].into_iter().chain(items.map(String::into_bytes)).chain([end]);
    std::iter::from_fn(move || {
        let mut out = Vec::new();
        while out.len() < WHOLE_BYTES_MAX
            && let Some(part) = parts.next()
        {
            out.extend_from_slice(&part);
        }
        (!out.is_empty()).then_some(out)
    })
}

fn string(out: &mut Vec<u8>, text: &str) {
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// Shorter runs are copied, because a shared run keeps its whole buffer in memory until it is sent.
const SHARED_BYTES_MIN: usize = 64 << 10;

/// Writes records as received: an LF follows each, except between the parts of a cut record and after a last record
/// that had none.
#[derive(Debug, Default)]
pub(crate) struct RawWriter {
    /// Id and flags of the last record, if it has flags.
    before: Option<(Id, u8)>,
    pieces: Vec<Bytes>,
    /// Bytes after the pieces.
    copied: Vec<u8>,
}

impl RawWriter {
    pub(crate) fn push(&mut self, run: RecordRun<'_>) {
        if let Some((id, flags)) = self.before.take()
            && (flags & Flags::CUT == 0 || !id.is_followed_by(run.first))
        {
            self.copied.push(b'\n');
        }
        if run.flags & (Flags::CUT | Flags::UNTERMINATED) != 0 {
            // Whether an LF follows depends on the next record.
            self.copied.extend_from_slice(run.lines.strip_suffix(b"\n").unwrap_or(run.lines));
            self.before = Some((run.last, run.flags));
        } else if run.lines.len() < SHARED_BYTES_MIN {
            self.copied.extend_from_slice(run.lines);
        } else {
            self.flush_copied();
            self.pieces.push(run.share_lines());
        }
    }

    /// Returns the pieces since the last call.
    pub(crate) fn take(&mut self) -> Vec<Bytes> {
        self.flush_copied();
        std::mem::take(&mut self.pieces)
    }

    fn flush_copied(&mut self) {
        if !self.copied.is_empty() {
            self.pieces.push(std::mem::take(&mut self.copied).into());
        }
    }
}

/// A time as RFC 3339 in UTC.
pub(crate) fn format_time(at: Option<Millis>) -> Option<String> {
    at.map(|at| time::format_rfc3339(at, 0))
}

/// Statistics, with the hints if there are any.
pub(crate) fn stats(stats: &QueryStats, seconds: f64, hints: &[String]) -> Value {
    let mut object = json!({
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
    });
    if !hints.is_empty() {
        object["hints"] = hints.into();
    }
    object
}

fn missing(missing: &MissingNode) -> Value {
    json!({ "node": missing.node, "address": missing.address, "reason": missing.reason.label(), "message": missing.to_string() })
}

/// A bucket of a histogram, without its groups.
pub(crate) fn bucket(bucket: &Bucket) -> Value {
    let at = |time| time::format_rfc3339(time, 0);
    json!({ "from": at(bucket.from), "to": at(bucket.to), "count": bucket.count })
}

pub(crate) fn field(field: &FieldValues) -> Value {
    let values: Vec<Value> = field.values.iter().map(field_value).collect();
    let kind = match field.kind {
        FieldKind::Derived => "derived",
        FieldKind::Label => "label",
        FieldKind::Attribute => "attribute",
        FieldKind::Key => "field",
    };
    let mut object = json!({
        "name": field.name, "kind": kind, "records": field.records, "distinct": field.distinct, "values": values,
    });
    if let Some(NumberRange { min, avg, max }) = field.numbers {
        object["numbers"] = json!({ "min": number(min), "avg": number(avg), "max": number(max) });
    }
    object
}

fn field_value(value: &FieldValue) -> Value {
    let mut object = json!({ "value": String::from_utf8_lossy(&value.value), "count": value.records });
    if value.is_cut {
        object["cut"] = true.into();
    }
    object
}

/// A number without a fraction where it has none.
fn number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() <= WHOLE_MAX { (number as i64).into() } else { number.into() }
}

/// Up to here every whole number is a double.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    use bucksaw_record::{AttributeNames, AttributeShape, Labels, Millis, Producer, RowAttributes};
    use proptest::prelude::*;

    use super::*;

    fn record(text: Vec<u8>) -> OwnedRecord {
        let id = Id::new(Millis(1_700_000_000_000), Producer::new(7), 3);
        let labels = Labels::parse("app=a").unwrap();
        OwnedRecord {
            id,
            nanos: 5,
            flags: Flags::CUT,
            labels,
            text,
            attributes: RowAttributes::empty(),
            is_stored: false,
        }
    }

    #[test]
    fn a_long_record_in_pieces_is_the_same_object() {
        let mut letters = "ä\"\\\0x\u{1F600}\n".repeat(50_000).into_bytes();
        let zeros = vec![0; 1 << 20];
        let other = (0..100_001_u32).map(|at| (at * 7) as u8).collect();
        letters.truncate(letters.len() - 1);
        for text in [letters, zeros, other, vec![b'x'; WHOLE_BYTES_MAX + 1]] {
            let record = record(text);
            let mut whole = b"data: ".to_vec();
            object(record.as_ref(), &mut whole);
            whole.extend_from_slice(b"\n\n");
            let long = LongRecord::if_long(record.as_ref(), b"data: ", b"\n\n").unwrap();
            let bytes = long.remaining_bytes();
            let pieces: Vec<Vec<u8>> = long.collect();
            let most = pieces.iter().map(Vec::len).max().unwrap();
            assert!(most < LONG_PIECE_BYTES + 6 * STEP_BYTES + 1_000, "{most}");
            assert_eq!(bytes, whole.len());
            assert!(pieces.concat() == whole, "pieces and whole differ");
        }
        assert!(LongRecord::if_long(record(vec![b'x'; WHOLE_BYTES_MAX]).as_ref(), b"", b"\n").is_none());
    }

    #[test]
    fn documents_come_in_pieces() {
        let check = |items: &[Value], most_pieces: usize| {
            let pieces: Vec<Vec<u8>> =
                document("all", items.iter().cloned(), end_list(&json!({ "matched": 1 }))).collect();
            let longest = items.iter().map(|item| item.to_string().len()).max().unwrap_or_default();
            assert!(pieces.iter().all(|piece| piece.len() <= WHOLE_BYTES_MAX + longest + 50));
            assert!((1..=most_pieces).contains(&pieces.len()), "{}", pieces.len());
            let whole: Value = serde_json::from_slice(&pieces.concat()).unwrap();
            assert_eq!(whole, json!({ "all": items, "stats": { "matched": 1 } }));
        };
        check(&[], 1);
        check(&[json!(5)], 1);
        check(&vec![json!({ "x": "\0" }); 10], 1);
        check(&vec![json!({ "x": "\0".repeat(5_000) }); 40], 41);
        check(&vec![json!("abc"); 100_000], 40);
    }

    fn any_text() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            "\\PC{0,40}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..40),
            // Long lines: text, binary, and characters of several bytes at the borders of steps.
            (any::<u8>(), 16_000_usize..40_000).prop_map(|(byte, length)| vec![byte; length]),
            ("[a-c]{0,3}", 6_000_usize..9_000).prop_map(|(head, count)| format!(
                "{head}{}",
                "\u{20ac}\u{1F600}\n".repeat(count)
            )
            .into_bytes()),
        ]
    }

    /// A record, with the attributes that it is made of.
    fn any_record() -> impl Strategy<Value = (OwnedRecord, Vec<(&'static str, Vec<u8>)>)> {
        let labels = prop::sample::select(vec!["", "app=a", "app=a,host=\"x\",zone=\u{e4}"]);
        let name = prop::sample::select(vec!["trace_id", "a\"b", "\u{e4}"]);
        let attributes = prop_oneof![Just(Vec::new()), prop::collection::vec((name, any_text()), 1..4)];
        (any::<u64>(), any::<u32>(), 0_u32..1_000_000, 0_u8..4, labels, any_text(), attributes).prop_map(
            |(ms, sequence, nanos, flags, labels, mut text, values)| {
                let (mut value_lines, mut attributes) = (Vec::new(), RowAttributes::empty());
                for (_, value) in &values {
                    text.push(b'\n');
                    text.extend_from_slice(value);
                    value_lines.push(1 + value.iter().filter(|byte| **byte == b'\n').count() as u32);
                }
                if let Ok(names) = AttributeNames::new(values.iter().map(|(name, _)| name)) {
                    attributes.push_row(0, AttributeShape { names: &names, value_lines: &value_lines });
                }
                let record = OwnedRecord {
                    id: Id::new(Millis(ms % 253_402_300_800_000), Producer::new(7), sequence),
                    nanos,
                    flags,
                    labels: Labels::parse(labels).unwrap_or_default(),
                    text,
                    attributes,
                    is_stored: false,
                };
                (record, values)
            },
        )
    }

    /// The object of a record, built in one go.
    fn naive_object(record: &OwnedRecord, attributes: &[(&str, Vec<u8>)]) -> String {
        let quote = |text: &str| serde_json::to_string(text).unwrap();
        let labels: Vec<String> =
            record.labels.iter().map(|(name, value)| format!("{}:{}", quote(name), quote(value))).collect();
        let mut flags = String::new();
        if record.flags & Flags::CUT != 0 {
            flags.push_str(",\"cut\":true");
        }
        if record.flags & Flags::UNTERMINATED != 0 {
            flags.push_str(",\"unterminated\":true");
        }
        let of_values: usize = attributes.iter().map(|(_, value)| value.len() + 1).sum();
        let line = record.text[..record.text.len() - of_values].to_vec();
        let line = match String::from_utf8(line) {
            Ok(line) => format!("\"line\":{}", quote(&line)),
            Err(error) => format!("\"line_base64\":\"{}\"", BASE64_STANDARD.encode(error.into_bytes())),
        };
        let (mut texts, mut others) = (Vec::new(), Vec::new());
        for (at, (name, value)) in attributes.iter().enumerate() {
            if attributes[at + 1..].iter().any(|(later, _)| later == name) {
                continue;
            }
            match str::from_utf8(value) {
                Ok(value) => texts.push(format!("{}:{}", quote(name), quote(value))),
                Err(_) => others.push(format!("{}:\"{}\"", quote(name), BASE64_STANDARD.encode(value))),
            }
        }
        let list = |name: &str, of: &[String]| match of {
            [] => String::new(),
            of => format!(",\"{name}\":{{{}}}", of.join(",")),
        };
        let attributes = list("attributes", &texts) + &list("attributes_base64", &others);
        let time = time::format_rfc3339(record.id.time(), record.nanos);
        format!(
            "{{\"id\":\"{}\",\"time\":\"{time}\",\"labels\":{{{}}}{attributes}{flags},{line}}}",
            record.id,
            labels.join(",")
        )
    }

    /// Records as received: an LF follows each, except between the parts of a cut record, and after a flagged last one.
    fn naive_raw(records: &[OwnedRecord]) -> Vec<u8> {
        let mut out = Vec::new();
        for (at, record) in records.iter().enumerate() {
            out.extend_from_slice(&record.text);
            let is_continued = |next: &OwnedRecord| record.flags & Flags::CUT != 0 && record.id.is_followed_by(next.id);
            let ends = match records.get(at + 1) {
                Some(next) => !is_continued(next),
                None => record.flags == 0,
            };
            if ends {
                out.push(b'\n');
            }
        }
        out
    }

    proptest! {
        #[test]
        fn objects_equal_the_naive_rendering(records in prop::collection::vec(any_record(), 0..8), is_list in any::<bool>()) {
            let mut writer = if is_list { ObjectWriter::LIST } else { ObjectWriter::LINES };
            let mut out = Vec::new();
            for (record, _) in &records {
                if let Some(long) = writer.write(record.as_ref(), &mut out) {
                    prop_assert!(record.text.len() > WHOLE_BYTES_MAX);
                    let bytes = long.remaining_bytes();
                    let pieces: Vec<Vec<u8>> = long.collect();
                    prop_assert_eq!(pieces.iter().map(Vec::len).sum::<usize>(), bytes);
                    out.extend(pieces.concat());
                }
            }
            let objects: Vec<String> = records.iter().map(|(record, attributes)| naive_object(record, attributes) + "\n").collect();
            let want = objects.join(if is_list { "," } else { "" });
            prop_assert!(out == want.as_bytes(), "{} and {want}", String::from_utf8_lossy(&out));
            for line in objects {
                let object: Value = serde_json::from_str(&line).unwrap();
                prop_assert!(object["line"].is_string() != object["line_base64"].is_string());
            }
        }

        #[test]
        fn raw_records_equal_the_naive_rendering(
            lengths in prop::collection::vec((0_usize..60, prop::bool::weighted(0.05), 0_u8..4, 1_u32..3), 0..40),
            run_records in 1_usize..6,
            take_every in 1_usize..5,
        ) {
            let (mut records, mut sequence) = (Vec::new(), 0);
            for (length, is_long, flags, step) in lengths {
                sequence += step;
                let length = if is_long { length + SHARED_BYTES_MIN } else { length };
                let mut record = record(vec![b'a' + (sequence % 26) as u8; length]);
                record.id = Id::new(Millis(5), Producer::new(7), sequence);
                // Most records have no flags.
                record.flags = if flags == 3 { 1 + (sequence % 3) as u8 } else { 0 };
                records.push(record);
            }
            let (mut writer, mut out, mut runs) = (RawWriter::default(), Vec::new(), 0);
            let mut rest = records.as_slice();
            while let Some(first) = rest.first() {
                let plain = rest.iter().take_while(|record| record.flags == 0).count();
                let count = plain.min(run_records).max(1);
                let (run, tail) = rest.split_at(count);
                rest = tail;
                let text: Bytes =
                    run.iter().flat_map(|record| record.text.iter().copied().chain([b'\n'])).collect::<Vec<u8>>().into();
                let last = run[count - 1].id;
                writer.push(RecordRun { first: first.id, last, flags: first.flags, records: count, lines: &text, buffer: &text });
                runs += 1;
                if runs % take_every == 0 {
                    out.extend(writer.take().concat());
                }
            }
            out.extend(writer.take().concat());
            prop_assert!(out == naive_raw(&records));
        }
    }
}
