//! A group without a broker: partitions in memory, members that read, crash and hand partitions over, and a queue each.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bucksaw_env::{Env, sim};
use bucksaw_fixtures::Random;
use bucksaw_ingest::{self as ingest, Durability, IngestError, Queue, Source};
use bucksaw_protocols::json::JsonNames;
use bucksaw_protocols::kafka::{KafkaFormat, KafkaMapping, KafkaMessage};
use bucksaw_record::{Id, RecordView};
use bucksaw_sources::Intake;
use bucksaw_sources::intake::EventTarget;
use prometheus_client::registry::Registry;

use crate::consumed_records::ConsumedRecords;
use crate::metrics::Metrics;

const NOW: u64 = 1_763_683_800_000;
const RECORD_BYTES_MAX: usize = 64;

/// A message of the simulated partitions.
#[derive(Clone)]
struct StoredMessage {
    offset: i64,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
}

/// What a record of a queue must be: labels and line.
type FoundRecord = (String, Vec<u8>);

struct GroupMember {
    queue: Arc<Queue>,
    env: Env,
    durability: Durability,
    mapping: KafkaMapping,
    records: ConsumedRecords,
    metrics: Metrics,
    /// The position in each assigned partition.
    positions: BTreeMap<i32, i64>,
}

impl GroupMember {
    fn new(seed: u64, durability: Durability, mapping: KafkaMapping) -> Self {
        let env = Env {
            fs: Arc::new(sim::Fs::new()),
            clock: Arc::new(sim::Clock::at_unix_ms(NOW)),
            entropy: Arc::new(sim::Entropy::seeded(seed)),
        };
        // Few unsynced records, so that the queue refuses some.
        let config = ingest::Config { unsynced_bytes_max: 2_000, ..ingest::Config::default() };
        let metrics = ingest::Metrics::new(&mut Registry::default());
        let queue = Arc::new(Queue::open(env.clone(), Path::new("/q"), config, metrics).unwrap().0);
        let metrics = Metrics::new(&mut Registry::default());
        let target = EventTarget { intake: Intake::new(queue.clone(), env.clone()), source: Source::Kafka, durability };
        let records =
            ConsumedRecords::new(target, RECORD_BYTES_MAX, "cluster".to_owned(), mapping.clone(), metrics.clone());
        Self { queue, env, durability, mapping, records, metrics, positions: BTreeMap::new() }
    }

    /// What is not in the queue is lost.
    fn crash(&mut self) {
        let target = EventTarget {
            intake: Intake::new(self.queue.clone(), self.env.clone()),
            source: Source::Kafka,
            durability: self.durability,
        };
        let (mapping, metrics) = (self.mapping.clone(), self.metrics.clone());
        self.records = ConsumedRecords::new(target, RECORD_BYTES_MAX, "cluster".to_owned(), mapping, metrics);
        self.positions.clear();
    }

    fn assign(&mut self, partition: i32, committed: i64) {
        self.records.table.assign("shop", partition, Some(committed));
        self.positions.insert(partition, committed);
    }

    fn read(&mut self, message: &StoredMessage, partition: i32) {
        let decoded = KafkaMessage {
            partition,
            offset: message.offset,
            timestamp: Some(message.timestamp),
            key: message.key.as_deref(),
            value: message.value.as_deref(),
            headers: &[],
            has_unreadable_headers: false,
        };
        self.records.message("shop", &decoded);
        self.positions.insert(partition, message.offset + 1);
    }

    /// The records of the queue by id; equal ids have equal records.
    fn stored(&self, found: &mut BTreeMap<Id, FoundRecord>) {
        for view in self.queue.uncommitted_segments() {
            let (positions, _) = view.frame_positions().unwrap();
            let mut frames = view.frames(0);
            for position in positions {
                frames.seek(position.offset);
                let chunk = frames.next_chunk().unwrap().unwrap();
                for (row, text) in (0..).zip(chunk.records()) {
                    let view = RecordView::new(text, chunk.rows.attributes.get(row));
                    let record = (chunk.labels.to_string(), view.line().to_vec());
                    let known = found.insert(chunk.rows.id(row).unwrap(), record.clone());
                    assert!(known.is_none_or(|known| known == record), "two records with one id");
                }
            }
        }
    }
}

/// Messages that alternate between streams, with gaps, long ones, tombstones and offsets around 2³².
fn partition(random: &mut Random, number: i32, is_json: bool) -> Vec<StoredMessage> {
    let mut offset = if number == 0 { (1 << 32) - 20 } else { 0 };
    let mut messages = Vec::new();
    for count in 0..random.below(120) {
        offset += if random.below(9) == 0 { 1 + random.below(3) as i64 } else { 0 };
        let long = if random.below(15) == 0 { "x".repeat(random.below(3 * RECORD_BYTES_MAX)) } else { String::new() };
        let value = match is_json && random.below(9) > 0 {
            true => format!("{{\"app\":\"a{}\",\"n\":\"{number}/{count}{long}\"}}", random.below(3)),
            false => format!("{number}/{count}{long}"),
        };
        messages.push(StoredMessage {
            offset,
            timestamp: NOW as i64 - random.below(5_000) as i64,
            key: (random.below(3) == 0).then(|| b"k".to_vec()),
            value: (random.below(20) > 0).then(|| value.into_bytes()),
        });
        offset += 1;
    }
    messages
}

fn json_mapping() -> KafkaMapping {
    KafkaMapping { format: KafkaFormat::Json(JsonNames::new("", "", "app")), ..KafkaMapping::plain() }
}

/// Reads everything by one member that never fails, and returns what it stored.
fn expected(partitions: &[Vec<StoredMessage>], mapping: &KafkaMapping) -> BTreeMap<Id, FoundRecord> {
    let mut member = GroupMember::new(99, Durability::Fast, mapping.clone());
    for (partition, messages) in (0..).zip(partitions) {
        messages.iter().for_each(|message| member.read(message, partition));
    }
    member.records.append().unwrap();
    let mut found = BTreeMap::new();
    member.stored(&mut found);
    found
}

/// The concatenated lines of the parts of each message, by partition and offset, are its values; so none is missing.
fn check_complete(partitions: &[Vec<StoredMessage>], found: &BTreeMap<Id, FoundRecord>) {
    let text: usize = found.values().map(|(_, line)| line.len()).sum();
    let values = partitions.iter().flatten().map(|message| message.value.as_ref().map_or(0, Vec::len));
    assert_eq!(text, values.sum::<usize>());
    assert!(found.len() >= partitions.iter().map(Vec::len).sum::<usize>());
}

struct Group {
    partitions: Vec<Vec<StoredMessage>>,
    committed: Vec<i64>,
    members: Vec<GroupMember>,
}

impl Group {
    /// Each partition belongs to the member of this number.
    fn assign(&mut self, partition: usize, member: usize) {
        let (number, committed) = (partition as i32, self.committed[partition]);
        self.members[member].assign(number, committed);
    }

    /// Commits what a member may commit. All before it must be in a queue.
    fn commit(&mut self, member: usize, wanted: &BTreeMap<Id, FoundRecord>) {
        if self.members[member].records.settle().is_err() {
            return;
        }
        let mut found = BTreeMap::new();
        self.members.iter().for_each(|member| member.stored(&mut found));
        for offset in self.members[member].records.to_commit() {
            let partition = offset.partition as usize;
            assert!(offset.offset >= self.committed[partition], "a commit goes back");
            self.committed[partition] = offset.offset;
            self.members[member].records.set_committed("shop", offset.partition, offset.offset);
            let before = self.partitions[partition].iter().filter(|message| message.offset < offset.offset);
            for message in before {
                let is_of =
                    |id: &&Id| id.sequence() == message.offset as u32 && id.time().0 == message.timestamp as u64;
                for id in wanted.keys().filter(is_of) {
                    // Another partition may have the same offset and time; all of them are read in the end.
                    let mut ids = crate::OffsetIds::new("cluster", "shop", offset.partition);
                    if ids.at(message.offset as u64, 0).0 == id.producer() {
                        assert!(found.contains_key(id), "committed before it is stored: {}", message.offset);
                    }
                }
            }
        }
    }

    fn sync(&self, member: usize) {
        self.members[member].queue.commit_group();
    }

    fn append(&mut self, member: usize) {
        match self.members[member].records.append() {
            Ok(()) | Err(IngestError::SyncBacklog) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Whatever order reads, appends, syncs, commits, crashes and rebalances have: each message is stored, under one id.
#[test]
fn each_message_is_stored_under_one_id_whatever_happens() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let is_json = seed % 2 == 0;
        let mapping = if is_json { json_mapping() } else { KafkaMapping::plain() };
        let durability = if seed % 3 == 0 { Durability::Fast } else { Durability::Durable };
        let partitions: Vec<_> = (0..3).map(|number| partition(&mut random, number, is_json)).collect();
        let wanted = expected(&partitions, &mapping);
        check_complete(&partitions, &wanted);
        let members = (0..2).map(|number| GroupMember::new(seed * 2 + number, durability, mapping.clone())).collect();
        let mut group = Group { committed: vec![0; partitions.len()], partitions, members };
        (0..3).for_each(|partition| group.assign(partition, partition % 2));
        for _ in 0..150 {
            let member = random.below(2);
            match random.below(12) {
                0..=4 => {
                    let assigned: Vec<(i32, i64)> =
                        group.members[member].positions.iter().map(|(at, next)| (*at, *next)).collect();
                    if let Some((partition, next)) = assigned.get(random.below(assigned.len().max(1))) {
                        let messages = group.partitions[*partition as usize].iter();
                        let messages: Vec<_> = messages
                            .filter(|message| message.offset >= *next)
                            .take(random.below(30))
                            .cloned()
                            .collect();
                        messages.iter().for_each(|message| group.members[member].read(message, *partition));
                    }
                }
                5 | 6 => group.append(member),
                7 | 8 => group.sync(member),
                9 => group.commit(member, &wanted),
                10 => {
                    let assigned: Vec<i32> = group.members[member].positions.keys().copied().collect();
                    group.members[member].crash();
                    assigned.iter().for_each(|partition| group.assign(*partition as usize, 1 - member));
                }
                _ => {
                    let Some(partition) = group.members[member].positions.keys().next().copied() else { continue };
                    if random.below(2) == 0 {
                        group.append(member);
                        group.commit(member, &wanted);
                    }
                    group.members[member].records.table.revoke("shop", partition);
                    group.members[member].positions.remove(&partition);
                    group.assign(partition as usize, 1 - member);
                }
            }
        }
        // In the end all is read.
        for member in 0..2 {
            let assigned: Vec<(i32, i64)> =
                group.members[member].positions.iter().map(|(at, next)| (*at, *next)).collect();
            for (partition, next) in assigned {
                let messages = group.partitions[partition as usize].clone();
                let rest = messages.iter().filter(|message| message.offset >= next);
                rest.for_each(|message| group.members[member].read(message, partition));
            }
            while group.members[member].records.has_unappended() {
                group.append(member);
                group.sync(member);
            }
            group.sync(member);
            group.commit(member, &wanted);
        }
        let mut found = BTreeMap::new();
        group.members.iter().for_each(|member| member.stored(&mut found));
        assert!(found == wanted, "seed {seed}: {} ids, wanted {}", found.len(), wanted.len());
        let ends = group.partitions.iter().map(|messages| messages.last().map_or(0, |last| last.offset + 1));
        assert_eq!(group.committed, ends.collect::<Vec<_>>(), "seed {seed}");
    }
}

#[test]
fn consecutive_offsets_of_one_stream_are_one_frame() {
    let mut member = GroupMember::new(1, Durability::Fast, KafkaMapping::plain());
    for offset in 0..50 {
        for partition in 0..2 {
            let value = Some(b"x".to_vec());
            member.read(&StoredMessage { offset, timestamp: NOW as i64, key: None, value }, partition);
        }
    }
    member.records.append().unwrap();
    let views = member.queue.uncommitted_segments();
    let frames: usize = views.iter().map(|view| view.frame_positions().unwrap().0.len()).sum();
    assert_eq!(frames, 2);
}

#[test]
fn a_refused_batch_is_appended_again_with_the_same_ids() {
    let mut member = GroupMember::new(1, Durability::Durable, json_mapping());
    let message = |offset: i64| StoredMessage {
        offset,
        timestamp: NOW as i64,
        key: None,
        value: Some(format!("{{\"app\":\"a{}\",\"n\":\"{}\"}}", offset % 2, "x".repeat(30)).into_bytes()),
    };
    let messages: Vec<_> = (0..200).map(message).collect();
    messages.iter().for_each(|message| member.read(message, 0));
    let mut refusals = 0;
    while member.records.append() == Err(IngestError::SyncBacklog) {
        refusals += 1;
        assert!(member.records.to_commit().is_empty());
        member.queue.commit_group();
    }
    assert!(refusals > 1);
    member.records.settle().unwrap();
    assert!(member.records.to_commit().is_empty(), "the last frames are not synced");
    member.queue.commit_group();
    member.records.settle().unwrap();
    assert_eq!(member.records.to_commit().first().map(|commit| commit.offset), Some(200));
    let mut found = BTreeMap::new();
    member.stored(&mut found);
    assert_eq!(found, expected(&[messages], &json_mapping()));
}

#[test]
fn gaps_and_times_ahead_are_counted() {
    let mut member = GroupMember::new(1, Durability::Fast, KafkaMapping::plain());
    member.assign(0, 5);
    for (offset, timestamp) in [(7, NOW), (8, NOW + 3_600_001), (10, NOW + 3_600_000)] {
        let (timestamp, value) = (timestamp as i64, None);
        member.read(&StoredMessage { offset, timestamp, key: None, value }, 0);
    }
    member.records.append().unwrap();
    let metrics = &member.metrics;
    assert_eq!((metrics.skipped_offsets.get(), metrics.times_ahead.get(), metrics.messages.get()), (3, 1, 3));
    let undecoded = metrics.undecoded.get_or_create(&[("reason", "tombstone")]).get();
    assert_eq!(undecoded, 3);
    let mut found = BTreeMap::new();
    member.stored(&mut found);
    let times: Vec<u64> = found.keys().map(|id| id.time().0 - NOW).collect();
    assert_eq!(times, [0, 3_600_000, 3_600_001], "times are not compared with the clock");
}
