use bucksaw_fixtures::Random;
use bucksaw_ingest::{IdempotentBatch, Source};
use bucksaw_protocols::{AttributeList, Event, EventError, EventSink as _};
use bucksaw_record::{AttributeNames, Flags, Id, Labels, Millis, Producer, RecordView};

use super::tests::{NOW, stream};
use super::*;

const RECORD_BYTES_MAX: usize = 64;

/// A record as it was pushed or read: labels, time, flags, line, attributes.
type EventRecord = (String, (u64, u32), u8, Vec<u8>, Vec<(String, Vec<u8>)>);

fn target() -> EventTarget {
    let stream = stream(Source::Http);
    EventTarget { intake: stream.intake, source: stream.source, durability: stream.durability }
}

fn events(target: &EventTarget, ids: IdAssignment) -> EventRecords {
    EventRecords::new(target.clone(), ids, RECORD_BYTES_MAX)
}

fn push(to: &mut EventRecords, labels: &str, line: &[u8], pairs: &[(&str, &[u8])]) -> Result<(), EventError> {
    let mut attributes = AttributeList::default();
    pairs.iter().for_each(|(name, value)| attributes.push(name, value));
    to.push(&Labels::parse(labels).unwrap(), &Event { time: None, line, attributes: &attributes })
}

/// The records of the queue, with their ids.
fn stored(target: &EventTarget) -> Vec<(Id, EventRecord)> {
    let mut found = Vec::new();
    for view in target.intake.queue.uncommitted_segments() {
        let (positions, _) = view.frame_positions().unwrap();
        let mut frames = view.frames(0);
        for position in positions {
            frames.seek(position.offset);
            let chunk = frames.next_chunk().unwrap().unwrap();
            for (row, text) in (0..).zip(chunk.records()) {
                let (rows, labels) = (&chunk.rows, chunk.labels.to_string());
                let view = RecordView::new(text, rows.attributes.get(row));
                let attributes = view.attributes();
                let attributes =
                    attributes.into_iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
                let (id, nanos, flags) = (rows.id(row).unwrap(), rows.nanos(row), rows.flags.get(row));
                found.push((id, (labels, (id.time().0, nanos), flags, view.line().to_vec(), attributes)));
            }
        }
    }
    found
}

/// Random text of a few bytes, LFs among them.
fn bytes(random: &mut Random, max: usize) -> Vec<u8> {
    (0..random.below(max + 1)).map(|_| *random.pick(b"ab \n\r\xff\0")).collect()
}

/// What is read is what was pushed, in the order of each stream.
#[test]
fn any_events_are_kept() {
    let mut random = Random::new(5);
    for _ in 0..60 {
        let target = target();
        let ids = match random.one_in(2) {
            true => IdAssignment::Keyed(IdempotentBatch::new(b"key", b"")),
            false => IdAssignment::consecutive(&target.intake),
        };
        let (mut to, mut want) = (events(&target, ids), Vec::new());
        for _ in 0..random.below(40) {
            let labels = Labels::parse(["app=a", "app=b", ""][random.below(3)]).unwrap();
            let line = bytes(&mut random, 100);
            let mut attributes = AttributeList::default();
            for _ in 0..random.below(4) {
                attributes.push(["x", "y.z", "é"][random.below(3)], &bytes(&mut random, 8));
            }
            let time = random.one_in(2).then(|| (Millis(random.next_u64() % NOW), random.below(1_000_000) as u32));
            to.push(&labels, &Event { time, line: &line, attributes: &attributes }).unwrap();
            let pairs: Vec<_> = attributes.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
            let room = RECORD_BYTES_MAX - attributes.value_bytes() - pairs.len();
            let parts: Vec<&[u8]> = if line.is_empty() { vec![&line] } else { line.chunks(room).collect() };
            for (at, part) in parts.iter().enumerate() {
                let flags = if at + 1 < parts.len() { Flags::CUT } else { 0 };
                want.push((labels.to_string(), time.map(|(ms, ns)| (ms.0, ns)), flags, part.to_vec(), pairs.clone()));
            }
            if random.one_in(20) && to.batch().is_none() {
                to.flush().unwrap();
            }
        }
        to.finish().unwrap();
        assert_eq!((to.accepted(), to.rejected()), (want.len() as u64, 0));
        let mut found = stored(&target);
        // Segments of the same millisecond are in any order.
        found.sort_by_key(|(id, _)| id.sequence());
        let found: Vec<EventRecord> = found.into_iter().map(|(_, record)| record).collect();
        for labels in ["app=a", "app=b", ""] {
            let labels = Labels::parse(labels).unwrap().to_string();
            let found: Vec<_> = found.iter().filter(|record| record.0 == labels).collect();
            let want: Vec<_> = want.iter().filter(|record| record.0 == labels).collect();
            assert_eq!(found.len(), want.len());
            for (found, want) in found.iter().zip(want) {
                assert_eq!((found.2, &found.3, &found.4), (want.2, &want.3, &want.4));
                assert!(want.1.is_none_or(|time| time == found.1), "{found:?} {want:?}");
            }
        }
    }
}

#[test]
fn events_without_room_for_their_line_are_refused_and_the_others_kept() {
    let target = target();
    let mut to = events(&target, IdAssignment::consecutive(&target.intake));
    let value = |bytes| vec![b'v'; bytes];
    let mut refused = |line: &[u8], bytes| push(&mut to, "app=a", line, &[("x", &value(bytes))]).err();
    let max = RECORD_BYTES_MAX;
    assert_eq!(refused(b"", max - 1), None);
    assert_eq!(refused(b"", max), Some(EventError::TooLong { bytes: max + 1, max }));
    // A line that must be cut has at least half of the maximum.
    assert_eq!(refused(&[b'l'; 65], max / 2 - 1), None);
    assert_eq!(refused(&[b'l'; 65], max / 2), Some(EventError::TooLong { bytes: max / 2 + 1, max: max / 2 }));
    let long_name = "n".repeat(AttributeNames::NAME_BYTES_MAX + 1);
    assert!(matches!(push(&mut to, "app=a", b"x", &[(&long_name, b"")]), Err(EventError::Attributes(_))));
    push(&mut to, "app=a", b"last", &[]).unwrap();
    to.finish().unwrap();
    assert_eq!((to.accepted(), to.rejected(), stored(&target).len()), (5, 3, 5));
    let rejected = &target.intake.queue.metrics().rejected_records;
    assert_eq!(rejected.get_or_create(&Source::Http.label()).get(), 3);
}

/// The ids of the events `a` and `b` of two streams, sent with a key.
fn keyed_ids(target: &EventTarget, value: &[u8], second: &str) -> Result<Vec<Id>, PrepareError> {
    let before = stored(target).len();
    let mut to = events(target, IdAssignment::Keyed(IdempotentBatch::new(b"key", b"")));
    push(&mut to, "app=a", b"a", &[("x", value)]).unwrap();
    push(&mut to, second, b"b", &[]).unwrap();
    to.finish()?;
    Ok(stored(target).into_iter().skip(before).map(|(id, _)| id).collect())
}

#[test]
fn a_retry_gets_the_same_ids_and_another_content_is_refused() {
    let target = target();
    let first = keyed_ids(&target, b"1", "app=b").unwrap();
    assert_eq!((first.len(), keyed_ids(&target, b"1", "app=b").unwrap()), (2, first));
    // The values are text, the lines that they take are not.
    for (value, second) in [(&b"2"[..], "app=b"), (b"1", "app=c")] {
        assert!(matches!(keyed_ids(&target, value, second), Err(PrepareError::Refused(_))), "{second}");
    }
}

#[test]
fn memory_is_bounded_in_streams_names_and_records() {
    let target = target();
    let mut to = events(&target, IdAssignment::consecutive(&target.intake));
    let check = |to: &EventRecords, what: &str| {
        assert!(to.memory_bytes() < 4 << 20, "{what}: {}", to.memory_bytes());
        assert!(to.accepted() > 0, "{what}");
    };
    for number in 0..2_000 {
        push(&mut to, &format!("app=a{number}"), b"x", &[]).unwrap();
    }
    check(&to, "streams");
    let mut to = events(&target, IdAssignment::consecutive(&target.intake));
    for number in 0..10_000 {
        let name = format!("{number:0200}");
        push(&mut to, "app=a", b"x", &[(&name, b"")]).unwrap();
    }
    check(&to, "names");
    let mut to = events(&target, IdAssignment::consecutive(&target.intake));
    for _ in 0..40_000 {
        push(&mut to, "app=a", b"", &[]).unwrap();
    }
    check(&to, "records");
    to.finish().unwrap();
    assert_eq!(to.accepted(), 40_000);
}

/// A buffer begins with the memory that the one before it needed; between two appends none is held.
#[test]
fn released_memory_is_taken_again_at_once() {
    let target = target();
    let mut to = events(&target, IdAssignment::consecutive(&target.intake));
    for _ in 0..100 {
        push(&mut to, "app=a", &[b'x'; 60], &[]).unwrap();
    }
    assert_eq!(to.flush(), Ok(()));
    to.release_memory();
    assert_eq!(to.memory_bytes(), 0);
    // An append without records is none.
    assert_eq!(to.flush(), Ok(()));
    push(&mut to, "app=a", b"x", &[]).unwrap();
    let held = to.memory_bytes();
    for _ in 0..99 {
        push(&mut to, "app=a", &[b'x'; 60], &[]).unwrap();
    }
    assert_eq!(to.memory_bytes(), held);
}

#[test]
fn what_the_queue_refuses_is_returned_once() {
    let target = target();
    let exhausted = IdAssignment::Consecutive(Id::new(Millis(NOW), Producer::new(1), u32::MAX));
    let mut to = events(&target, exhausted);
    push(&mut to, "app=a", b"1", &[]).unwrap();
    push(&mut to, "app=a", b"2", &[]).unwrap();
    assert_eq!(to.flush(), Err(PrepareError::SequenceExhausted));
    assert_eq!((to.flush(), to.accepted(), to.memory_bytes()), (Ok(()), 0, 0));
}
