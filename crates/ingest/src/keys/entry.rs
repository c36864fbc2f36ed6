//! An entry of a key file.

use bucksaw_record::{Id, Millis, Producer};

pub(super) const MAGIC: [u8; 8] = *b"BSWKEYS1";
pub(super) const ENTRY_LEN: usize = 40;
const LAST_SECTION_BIT: u64 = 1 << 63;

/// A section of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyEntry {
    pub(super) key: u64,
    pub(super) number: u32,
    pub(super) base_time: Millis,
    pub(super) producer: Producer,
    pub(super) is_last: bool,
    pub(super) first_seen: Millis,
}

impl KeyEntry {
    pub(super) fn encode(&self, id: Id) -> [u8; ENTRY_LEN] {
        let mut bytes = [0; ENTRY_LEN];
        let producer = self.producer.bits() | if self.is_last { LAST_SECTION_BIT } else { 0 };
        let parts = [self.key, self.base_time.0, producer, self.first_seen.0].map(u64::to_le_bytes).concat();
        let rest = [&self.number.to_le_bytes()[..], &parts].concat();
        let crc = crc32c::crc32c_append(bucksaw_segment::queue::checksum_seed(id), &rest);
        for (to, from) in bytes.iter_mut().zip(crc.to_le_bytes().iter().chain(&rest)) {
            *to = *from;
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8], id: Id) -> Option<Self> {
        let (crc, rest) = bytes.split_first_chunk()?;
        if u32::from_le_bytes(*crc) != crc32c::crc32c_append(bucksaw_segment::queue::checksum_seed(id), rest) {
            return None;
        }
        let (number, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_first_chunk()?;
        let (base, rest) = rest.split_first_chunk()?;
        let (producer, rest) = rest.split_first_chunk()?;
        let (seen, _) = rest.split_first_chunk()?;
        let producer = u64::from_le_bytes(*producer);
        Some(Self {
            key: u64::from_le_bytes(*key),
            number: u32::from_le_bytes(*number),
            base_time: Millis(u64::from_le_bytes(*base)),
            producer: Producer::new(producer),
            is_last: producer & LAST_SECTION_BIT != 0,
            first_seen: Millis(u64::from_le_bytes(*seen)),
        })
    }
}
