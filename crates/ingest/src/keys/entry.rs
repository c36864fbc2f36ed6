//! An entry of a key file.

use bucksaw_binary::ByteReader;
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
    pub(super) fn encode(&self, id: Id) -> Vec<u8> {
        let producer = self.producer.bits() | if self.is_last { LAST_SECTION_BIT } else { 0 };
        let numbers = [self.key, self.base_time.0, producer, self.first_seen.0].map(u64::to_le_bytes).concat();
        let fields = [&self.number.to_le_bytes()[..], &numbers].concat();
        [&checksum(id, &fields).to_le_bytes()[..], &fields].concat()
    }

    /// `None` if the checksum is wrong.
    pub(super) fn decode(bytes: &[u8], id: Id) -> Option<Self> {
        let mut fields = ByteReader(bytes);
        if fields.u32()? != checksum(id, fields.0) {
            return None;
        }
        let number = fields.u32()?;
        let (key, base_time) = (fields.u64()?, Millis(fields.u64()?));
        let (producer, first_seen) = (fields.u64()?, Millis(fields.u64()?));
        let is_last = producer & LAST_SECTION_BIT != 0;
        Some(Self { key, number, base_time, producer: Producer::new(producer), is_last, first_seen })
    }
}

fn checksum(id: Id, fields: &[u8]) -> u32 {
    crc32c::crc32c_append(bucksaw_segment::queue::checksum_seed(id), fields)
}
