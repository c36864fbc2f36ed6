//! Counted ids between nodes: the sequence numbers of each cell and producer.
//!
//! ```text
//!   each   4 cell · 8 producer · 4 bytes of the numbers · the numbers, in the format of roaring bitmaps
//! ```
//! Consecutive numbers are encoded as runs, so a count of all records costs next to nothing, and a sparse one two bytes
//! per record. The maximum is little more than one bit per record of the producers.

use bucksaw_binary::ByteReader;
use bucksaw_record::Producer;
use bytes::Bytes;
use roaring::RoaringBitmap;

use super::message::MessageKind;
use bucksaw_rpc::{MalformedMessage, stream_message};

/// Bytes at which a message ends.
const MESSAGE_BYTES: usize = 256 << 10;

/// Sequence numbers encoded as one bitmap, which bounds the length of a message.
const PART_NUMBERS: u32 = 1 << 21;

/// Ids of one cell and producer.
pub(crate) type Cell = ((usize, Producer), RoaringBitmap);

/// Encodes cells as messages.
pub(crate) fn encode(cells: Vec<Cell>) -> Vec<Bytes> {
    let (mut messages, mut content) = (Vec::new(), Vec::new());
    for ((cell, producer), mut numbers) in cells {
        while let Some(first) = numbers.min() {
            let last = first | (PART_NUMBERS - 1);
            let mut part = if numbers.max() > Some(last) {
                let mut part = numbers.clone();
                part.remove_range((std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded));
                numbers.remove_range(..=last);
                part
            } else {
                std::mem::take(&mut numbers)
            };
            part.optimize();
            content.extend_from_slice(&(cell as u32).to_le_bytes());
            content.extend_from_slice(&producer.bits().to_le_bytes());
            content.extend_from_slice(&(part.serialized_size() as u32).to_le_bytes());
            // Writing to memory cannot fail.
            let _ = part.serialize_into(&mut content);
            if content.len() >= MESSAGE_BYTES {
                messages.push(stream_message(MessageKind::Cells, &content));
                content.clear();
            }
        }
    }
    if !content.is_empty() {
        messages.push(stream_message(MessageKind::Cells, &content));
    }
    messages
}

/// Decodes a message of a count with `cells` cells.
pub(crate) fn decode(content: &[u8], cells: usize) -> Result<Vec<Cell>, MalformedMessage> {
    let mut rest = ByteReader(content);
    let mut decoded = Vec::new();
    while !rest.is_empty() {
        let mut next = || {
            let (cell, producer, length) = (rest.u32()? as usize, rest.u64()?, rest.u32()? as usize);
            Some((cell, producer, rest.bytes(length)?))
        };
        let (cell, producer, bytes) = next().ok_or(MalformedMessage::TOO_SHORT)?;
        if cell >= cells || Producer::new(producer).bits() != producer {
            return Err(MalformedMessage("counted ids outside the requested cells"));
        }
        let numbers =
            RoaringBitmap::deserialize_from(bytes).map_err(|_| MalformedMessage("counted ids are damaged"))?;
        decoded.push(((cell, Producer::new(producer)), numbers));
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use bucksaw_rpc::MessageReader;

    fn round_trip(cells: &[Cell]) -> (BTreeMap<(usize, Producer), RoaringBitmap>, usize) {
        let mut messages = MessageReader::default();
        let sent = encode(cells.to_vec());
        sent.iter().for_each(|message| messages.push(message));
        let mut decoded: BTreeMap<(usize, Producer), RoaringBitmap> = BTreeMap::new();
        while let Some((_, content)) = messages.next_message::<MessageKind>().unwrap() {
            for (key, numbers) in decode(&content, 10).unwrap() {
                *decoded.entry(key).or_default() |= numbers;
            }
        }
        (decoded, sent.iter().map(Bytes::len).sum())
    }

    #[test]
    fn encoded_sizes_are_bounded() {
        let check = |numbers: RoaringBitmap, bytes_max: usize| {
            let cell = ((3, Producer::new(9)), numbers);
            let (decoded, bytes) = round_trip(std::slice::from_ref(&cell));
            assert_eq!(decoded.into_iter().collect::<Vec<_>>(), [cell]);
            assert!(bytes <= bytes_max, "{bytes}");
        };
        check((0..10_000_000).collect(), 5_000);
        check((0..10_000_000).step_by(2).collect(), 1_300_000);
        check((0..10_000_000).step_by(1_000).collect(), 23_000);
        check([0, u32::MAX].into_iter().collect(), 200);
    }

    #[test]
    fn cells_outside_the_request_are_rejected() {
        let content = |cell| {
            let mut messages = MessageReader::default();
            messages.push(&encode(vec![((cell, Producer::new(1)), RoaringBitmap::from_iter([1]))])[0]);
            messages.next_message::<MessageKind>().unwrap().unwrap().1
        };
        assert_eq!(decode(&content(9), 10).map(|cells| cells.len()), Ok(1));
        assert!(decode(&content(10), 10).is_err());
    }

    proptest! {
        #[test]
        fn cells_round_trip(cells in prop::collection::btree_map((0_usize..10, 0_u64..9), prop::collection::btree_set(any::<u32>(), 1..50), 0..20)) {
            let cells: Vec<Cell> = cells
                .into_iter()
                .map(|((cell, producer), numbers)| ((cell, Producer::new(producer)), numbers.into_iter().collect()))
                .collect();
            prop_assert_eq!(round_trip(&cells).0.into_iter().collect::<Vec<_>>(), cells);
        }

        #[test]
        fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode(&bytes, 10);
        }
    }
}
