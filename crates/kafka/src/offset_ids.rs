//! Ids from offsets.

use bucksaw_record::Producer;

/// Derives producers and sequence numbers from the offsets of one partition.
///
/// ```text
///   sequence number  the low 32 bits of the offset
///   producer         hash of cluster id, topic, partition, the high 32 bits of the offset, and the part
///   time             that of the message, see `bucksaw_protocols::kafka`
/// ```
/// A long message is cut into several records. Its first record is part 0, the next ones are parts 1, 2, and so on. A message
/// that is not cut has part 0 only.
///
/// The id depends on nothing else: not on the node, the group, the batch or the time of the arrival.
#[derive(Clone, Debug)]
pub struct OffsetIds {
    /// Cluster, topic and partition.
    key: Vec<u8>,
    /// The high bits and the producer of the last whole message.
    last: Option<(u32, Producer)>,
}

impl OffsetIds {
    /// The ids of one partition.
    pub fn new(cluster_id: &str, topic: &str, partition: i32) -> Self {
        let mut key = b"kafka".to_vec();
        for part in [cluster_id, topic] {
            key.push(0);
            key.extend_from_slice(part.as_bytes());
        }
        key.push(0);
        key.extend_from_slice(&partition.to_be_bytes());
        Self { key, last: None }
    }

    /// Producer and sequence number of a part of the message at an offset.
    pub fn at(&mut self, offset: u64, part: u32) -> (Producer, u32) {
        let (high, low) = ((offset >> 32) as u32, offset as u32);
        if part > 0 {
            return (self.producer(high, part), low);
        }
        let producer = match self.last {
            Some((last, producer)) if last == high => producer,
            _ => self.producer(high, 0),
        };
        self.last = Some((high, producer));
        (producer, low)
    }

    fn producer(&self, high: u32, part: u32) -> Producer {
        let numbers = [high.to_be_bytes(), part.to_be_bytes()].concat();
        Producer::from_key(&[&*self.key, &numbers].concat())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn consecutive_offsets_have_consecutive_ids_of_one_producer() {
        let mut ids = OffsetIds::new("c", "t", 0);
        let (producer, first) = ids.at(41, 0);
        assert_eq!((ids.at(42, 0), first), ((producer, 42), 41));
        assert_eq!(OffsetIds::new("c", "t", 0).at(42, 0), (producer, 42), "another node has the same");
    }

    /// Ids that were stored once must never change.
    #[test]
    fn ids_are_the_same_in_every_version() {
        let mut ids = OffsetIds::new("4L6g3nShT-eMCtK--X86sw", "shop.logs", 7);
        let found = [(0, 0), (1, 0), (1, 1), ((1 << 32) + 5, 0)].map(|(offset, part)| ids.at(offset, part));
        let want = [(0x8e80_743f_e867, 0), (0x8e80_743f_e867, 1), (0xe3f5_837c_a8be, 1), (0xd181_947a_4602, 5)];
        assert_eq!(found.map(|(producer, sequence)| (producer.bits(), sequence)), want);
    }

    #[test]
    fn offsets_beyond_32_bits_have_another_producer() {
        let mut ids = OffsetIds::new("c", "t", 0);
        let around = (1 << 32) - 1;
        let (before, last) = ids.at(around, 0);
        let (after, first) = ids.at(around + 1, 0);
        assert_eq!((last, first), (u32::MAX, 0));
        assert_ne!(before, after);
        assert_eq!(ids.at(around, 0), (before, u32::MAX), "also after the later one");
        assert!(before.is_keyed());
    }

    #[test]
    fn each_of_cluster_topic_partition_and_part_matters() {
        let of = |cluster, topic, partition, offset, part| OffsetIds::new(cluster, topic, partition).at(offset, part).0;
        let found = [
            of("c", "t", 0, 5, 0),
            of("d", "t", 0, 5, 0),
            of("c", "u", 0, 5, 0),
            of("ct", "", 0, 5, 0),
            of("c", "t", 1, 5, 0),
            of("c", "t", 0, 5 << 32, 0),
            of("c", "t", 0, 5, 1),
            of("c", "t", 0, 5, 2),
        ];
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>().len(), found.len());
    }
}
