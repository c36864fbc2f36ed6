use std::path::Path;
use std::sync::Arc;

use bucksaw_env::{Env, sim};
use bucksaw_ingest::{Config, Durability, Metrics, Queue, Source};
use bucksaw_record::{Flags, Id, LabelScope, Labels, LineSplitter, Millis, Producer};
use bucksaw_wire::{Batch, ClientMessage, DecodeProgress};
use prometheus_client::registry::Registry;

use super::*;

pub(super) const NOW: u64 = 10_000_000;
const HOUR_MS: u64 = 3_600_000;

pub(crate) fn stream(source: Source) -> RecordStream {
    let env = Env {
        fs: Arc::new(sim::Fs::new()),
        clock: Arc::new(sim::Clock::at_unix_ms(NOW)),
        entropy: Arc::new(sim::Entropy::seeded(1)),
    };
    let metrics = Metrics::new(&mut Registry::default());
    let queue = Arc::new(Queue::open(env.clone(), Path::new("/q"), Config::default(), metrics).unwrap().0);
    let labels = Labels::parse("app=test").unwrap();
    RecordStream { intake: Intake::new(queue, env), source, labels, durability: Durability::Fast }
}

/// The time and the text of each record in the queue.
fn records(stream: &RecordStream) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    for view in stream.intake.queue.uncommitted_segments() {
        let (positions, _) = view.frame_positions().unwrap();
        let mut frames = view.frames(0);
        for position in positions {
            frames.seek(position.offset);
            let frame = frames.next_frame().unwrap().unwrap();
            let rows = frame.rows().unwrap();
            let lines = frame.text().split_inclusive(|byte| *byte == b'\n');
            found.extend(
                (0..)
                    .zip(lines)
                    .map(|(row, line)| (rows.id(row).unwrap().time().0, String::from_utf8(line.to_vec()).unwrap())),
            );
        }
    }
    found
}

#[test]
fn event_times_too_far_ahead_become_the_arrival_time_and_missing_ones_the_time_of_the_first_id() {
    let stream = stream(Source::Http);
    let mut buffer = RecordBuffer::new(1 << 10);
    buffer.push_record(b"stated\n", 0, Some((Millis(5_000), 7)));
    buffer.push_record(b"none\n", 0, None);
    buffer.push_record(b"ahead\n", Flags::CUT, Some((Millis(NOW + HOUR_MS + 1), 9)));
    let mut ids = IdAssignment::consecutive(&stream.intake);
    let meta = buffer.with_records(|records| stream.prepare(&mut ids, records, None, true)).unwrap();
    buffer.with_records(|records| stream.append(&meta, records.text, |_| {})).unwrap();
    let want = [(5_000, "stated\n"), (NOW, "none\n"), (NOW, "ahead\n")];
    assert_eq!(records(&stream), want.map(|(at, text)| (at, text.to_owned())));
    let metrics = stream.intake.queue.metrics();
    let by = Source::Http.label();
    assert_eq!(metrics.times_replaced.get_or_create(&by).get(), 1);
    assert_eq!(metrics.cut_records.get_or_create(&by).get(), 1);
}

#[test]
fn ids_are_consecutive_over_several_appends() {
    for is_request in [false, true] {
        let stream = stream(Source::Tcp);
        let mut ids =
            if is_request { IdAssignment::consecutive(&stream.intake) } else { IdAssignment::arrival(&stream.intake) };
        let splitter = LineSplitter::new(100);
        let lines = splitter.split(b"one\ntwo\n");
        let first = stream.prepare(&mut ids, Records::from(&lines), None, false).unwrap();
        let second = stream.prepare(&mut ids, Records::from(&lines), None, false).unwrap();
        assert_eq!(first.first_id.checked_add(2), Some(second.first_id));
        assert_eq!((first.count, first.row_meta.len()), (2, 0), "lines need no row metadata");
    }
}

#[test]
fn a_producer_without_sequence_numbers_refuses_the_records() {
    let stream = stream(Source::Http);
    let mut ids = IdAssignment::Consecutive(Id::new(Millis(NOW), Producer::new(1), u32::MAX));
    let splitter = LineSplitter::new(100);
    let lines = splitter.split(b"one\ntwo\n");
    assert_eq!(
        stream.prepare(&mut ids, Records::from(&lines), None, false).err(),
        Some(PrepareError::SequenceExhausted)
    );
}

/// The labels of each frame in the queue.
fn labels(stream: &RecordStream) -> Vec<String> {
    let views = stream.intake.queue.uncommitted_segments();
    let found = views.iter().flat_map(|view| view.streams().iter().map(ToString::to_string).collect::<Vec<_>>());
    found.collect()
}

fn append(stream: &RecordStream, line: &[u8]) {
    let mut buffer = RecordBuffer::new(1 << 10);
    buffer.push_record(line, 0, None);
    let mut ids = IdAssignment::consecutive(&stream.intake);
    let meta = buffer.with_records(|records| stream.prepare(&mut ids, records, None, true)).unwrap();
    buffer.with_records(|records| stream.append(&meta, records.text, |_| {})).unwrap();
}

#[test]
fn records_get_the_labels_of_the_clients_scope_and_never_a_reserved_one() {
    let check = |scope: &str, stated: &str, want: &str| {
        let mut stream = stream(Source::Tcp);
        let scope = LabelScope::new(Labels::parse(scope).unwrap());
        stream.intake = stream.intake.clone().within(Some(&scope));
        stream.labels = Labels::parse(stated).unwrap();
        append(&stream, b"x\n");
        assert_eq!(labels(&stream), [want], "{scope:?} and {stated}");
    };
    check("", "app=x", "app=x");
    check("tenant=a", "app=x", "app=x,tenant=a");
    check("tenant=a", "app=x,tenant=b", "app=x,tenant=a");
    check("", "_bucksaw=audit,app=x", "app=x,exported_bucksaw=audit");
    check("tenant=a", "_bucksaw=audit", "exported_bucksaw=audit,tenant=a");
    check("_bucksaw=audit", "app=x", "app=x,exported_bucksaw=audit");
}

#[test]
fn labels_that_have_no_room_beside_those_of_the_scope_are_counted() {
    let mut stream = stream(Source::Tcp);
    let full = (0..Labels::COUNT_MAX).map(|number| (format!("l{number:02}"), "x"));
    stream.labels = Labels::new(full).unwrap();
    let scope = LabelScope::new(Labels::parse("tenant=a,l05=y").unwrap());
    stream.intake = stream.intake.clone().within(Some(&scope));
    append(&stream, b"x\n");
    let stored = Labels::parse(&labels(&stream)[0]).unwrap();
    assert_eq!(stored.iter().count(), Labels::COUNT_MAX);
    assert_eq!(
        [stored.get("tenant"), stored.get("l05"), stored.get("l62"), stored.get("l63")],
        [Some("a"), Some("y"), Some("x"), None]
    );
    let metrics = stream.intake.queue.metrics();
    assert_eq!(metrics.dropped_labels.get_or_create(&Source::Tcp.label()).get(), 1);
}

/// A client of the framed protocol chooses its ids. One that states the ids of another tenant's records does not get them.
#[test]
fn ids_of_two_tenants_never_meet() {
    let plain = stream(Source::Forward);
    let first_id = Id::new(Millis(NOW), Producer::new(77), 3);
    let id_of = |scope: Option<&str>| {
        let scope = scope.map(|scope| LabelScope::new(Labels::parse(scope).unwrap()));
        let stream = RecordStream { intake: plain.intake.clone().within(scope.as_ref()), ..plain.clone() };
        let batch = Batch { first_id, count: 1, accepted: Millis(NOW), layout_bits: 0, row_meta: &[], text: b"x\n" };
        let bytes = batch.encode();
        let Ok(DecodeProgress::Complete(ClientMessage::Batch(frame), _)) = ClientMessage::decode(&bytes, 1 << 20)
        else {
            panic!("no batch")
        };
        stream.prepare_frame(&frame).unwrap().first_id
    };
    let (a, b) = (id_of(Some("tenant=a")), id_of(Some("tenant=b")));
    assert_eq!((id_of(None), id_of(Some("tenant=a"))), (first_id, a));
    assert!(a != b && a != first_id && b != first_id);
    assert_eq!((a.time(), a.sequence()), (first_id.time(), first_id.sequence()));
}
