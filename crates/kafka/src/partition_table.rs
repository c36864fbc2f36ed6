//! The partitions of a worker.

use std::collections::HashMap;
use std::sync::Arc;

use bucksaw_protocols::kafka::{KafkaDecoder, KafkaMapping};
use bucksaw_record::Millis;

use crate::commit_tracker::{AssignmentNumber, NextOffset};
use crate::frame_batch::FramePlace;
use crate::offset_ids::OffsetIds;

/// A partition that the group has assigned to the worker.
#[derive(Debug)]
pub(crate) struct AssignedPartition {
    pub(crate) assignment: AssignmentNumber,
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    /// The place of its decoder.
    decoder: usize,
    pub(crate) ids: OffsetIds,
    /// Where its last message was added.
    pub(crate) place: Option<FramePlace>,
    /// The offset behind the last message that was read, or the committed one.
    pub(crate) next: Option<i64>,
    /// Whether the batch has messages of it.
    pub(crate) is_in_batch: bool,
    /// The offset before which all records have their durability.
    pub(crate) stored: Option<i64>,
    /// The offset that the broker has.
    pub(crate) committed: Option<i64>,
    /// Where reading begins without a committed offset, if known.
    pub(crate) begin: Option<i64>,
    /// The offset behind the last message of the partition, if known.
    pub(crate) end: Option<i64>,
    /// The timestamp of the last message that was read.
    pub(crate) read_time: Option<Millis>,
    /// When the lag was last 0.
    pub(crate) caught_up_at: Option<Millis>,
}

impl AssignedPartition {
    /// Messages between what is stored and the end of the partition.
    pub(crate) fn lag(&self) -> Option<u64> {
        u64::try_from(self.end?.saturating_sub(self.stored.or(self.begin)?)).ok().or(Some(0))
    }
}

/// The partitions and the decoders of their topics.
#[derive(Debug)]
pub(crate) struct PartitionTable {
    cluster_id: String,
    mapping: KafkaMapping,
    pub(crate) partitions: Vec<AssignedPartition>,
    by_name: HashMap<Arc<str>, HashMap<i32, usize>>,
    /// A decoder for each topic that was ever assigned.
    decoders: Vec<KafkaDecoder>,
    decoder_of: HashMap<Arc<str>, usize>,
    /// The place of the last partition that was looked up: messages come in runs of one partition.
    last: usize,
    next_assignment: AssignmentNumber,
}

impl PartitionTable {
    pub(crate) fn new(cluster_id: String, mapping: KafkaMapping) -> Self {
        Self {
            cluster_id,
            mapping,
            partitions: Vec::new(),
            by_name: HashMap::new(),
            decoders: Vec::new(),
            decoder_of: HashMap::new(),
            last: 0,
            next_assignment: 0,
        }
    }

    fn place(&self, topic: &str, partition: i32) -> Option<usize> {
        let is_last = |last: &AssignedPartition| last.partition == partition && *last.topic == *topic;
        if self.partitions.get(self.last).is_some_and(is_last) {
            return Some(self.last);
        }
        self.by_name.get(topic)?.get(&partition).copied()
    }

    pub(crate) fn get_mut(&mut self, topic: &str, partition: i32) -> Option<&mut AssignedPartition> {
        let place = self.place(topic, partition)?;
        self.partitions.get_mut(place)
    }

    /// A partition and the decoder of its topic. A message of an unknown partition assigns it.
    pub(crate) fn reader(
        &mut self,
        topic: &str,
        partition: i32,
    ) -> Option<(&mut AssignedPartition, &mut KafkaDecoder)> {
        let place = match self.place(topic, partition) {
            Some(place) => place,
            None => self.assign(topic, partition, None),
        };
        self.last = place;
        let partition = self.partitions.get_mut(place)?;
        let decoder = self.decoders.get_mut(partition.decoder)?;
        Some((partition, decoder))
    }

    /// Adds a partition whose committed offset is `next`, if there is one. Returns its place.
    pub(crate) fn assign(&mut self, topic: &str, partition: i32, next: Option<i64>) -> usize {
        self.revoke(topic, partition);
        let (topic, decoder) = self.decoder(topic);
        let ids = OffsetIds::new(&self.cluster_id, &topic, partition);
        let assignment = self.next_assignment;
        self.next_assignment += 1;
        let place = self.partitions.len();
        self.by_name.entry(Arc::clone(&topic)).or_default().insert(partition, place);
        self.partitions.push(AssignedPartition {
            assignment,
            topic,
            partition,
            decoder,
            ids,
            place: None,
            next,
            is_in_batch: false,
            stored: next,
            committed: next,
            begin: None,
            end: None,
            read_time: None,
            caught_up_at: None,
        });
        place
    }

    fn decoder(&mut self, topic: &str) -> (Arc<str>, usize) {
        if let Some((topic, place)) = self.decoder_of.get_key_value(topic) {
            return (Arc::clone(topic), *place);
        }
        let (name, place) = (Arc::<str>::from(topic), self.decoders.len());
        self.decoders.push(KafkaDecoder::new(self.mapping.clone(), topic));
        self.decoder_of.insert(Arc::clone(&name), place);
        (name, place)
    }

    /// Removes a partition. Offsets of batches that still wait have no effect on it any more.
    pub(crate) fn revoke(&mut self, topic: &str, partition: i32) {
        let Some(place) = self.place(topic, partition) else { return };
        self.partitions.swap_remove(place);
        if let Some(places) = self.by_name.get_mut(topic) {
            places.remove(&partition);
        }
        let Some(moved) = self.partitions.get(place) else { return };
        if let Some(places) = self.by_name.get_mut(&moved.topic) {
            places.insert(moved.partition, place);
        }
    }

    /// Takes the offsets behind the messages in the batch.
    pub(crate) fn take_batch_offsets(&mut self) -> Vec<NextOffset> {
        let offset_behind = |partition: &mut AssignedPartition| {
            let is_in_batch = std::mem::take(&mut partition.is_in_batch);
            let offset = partition.next.filter(|_| is_in_batch)?;
            Some(NextOffset { assignment: partition.assignment, offset })
        };
        self.partitions.iter_mut().filter_map(offset_behind).collect()
    }

    /// Records that everything before an offset has its durability, if the partition is still assigned.
    pub(crate) fn store(&mut self, next: NextOffset) {
        let mut partitions = self.partitions.iter_mut();
        if let Some(partition) = partitions.find(|partition| partition.assignment == next.assignment) {
            partition.stored = Some(next.offset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_found_after_others_were_revoked() {
        let mut table = PartitionTable::new("c".to_owned(), KafkaMapping::plain());
        for (topic, partition) in [("a", 0), ("a", 1), ("b", 0), ("b", 1)] {
            table.assign(topic, partition, Some(i64::from(partition)));
        }
        let found = |table: &mut PartitionTable, topic: &str, partition| {
            table.get_mut(topic, partition).map(|found| (found.topic.to_string(), found.partition))
        };
        assert!(table.reader("a", 0).is_some());
        table.revoke("a", 0);
        table.revoke("b", 7);
        assert_eq!(found(&mut table, "a", 0), None);
        for (topic, partition) in [("a", 1), ("b", 0), ("b", 1)] {
            assert_eq!(found(&mut table, topic, partition), Some((topic.to_owned(), partition)));
        }
        let earlier = table.get_mut("b", 1).unwrap().assignment;
        table.assign("b", 1, None);
        table.store(NextOffset { assignment: earlier, offset: 9 });
        assert_eq!(table.get_mut("b", 1).unwrap().stored, None, "an earlier assignment has no effect");
    }

    #[test]
    fn the_lag_is_counted_from_what_is_stored() {
        let mut table = PartitionTable::new("c".to_owned(), KafkaMapping::plain());
        table.assign("a", 0, None);
        let partition = table.get_mut("a", 0).unwrap();
        assert_eq!(partition.lag(), None);
        (partition.begin, partition.end) = (Some(2), Some(12));
        assert_eq!(partition.lag(), Some(10));
        (partition.stored, partition.end) = (Some(5), Some(12));
        assert_eq!(partition.lag(), Some(7));
        partition.end = Some(4);
        assert_eq!(partition.lag(), Some(0));
    }
}
