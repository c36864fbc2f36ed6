//! The batches of one entry of the buffer.
//!
//! An entry has one batch, or several that belong together because one change of the state covers all of them. Their
//! frames stand one after another. So do their labels, each behind their length as a varint.

use std::sync::Arc;

use bucksaw_binary::{ByteReader, put_varint};
use bucksaw_buffer::BufferedBatch;
use bucksaw_record::Labels;
use bucksaw_segment::FrameHeader;

use crate::batch_builder::ShippedBatch;

/// Appends the labels of a batch.
pub(super) fn put_labels(labels: &Labels, out: &mut Vec<u8>) {
    let mut encoded = Vec::new();
    labels.encode(&mut encoded);
    put_varint(out, encoded.len() as u64);
    out.extend_from_slice(&encoded);
}

/// Splits entries into batches. Consecutive batches of a stream share their labels.
#[derive(Debug, Default)]
pub(super) struct EntrySplitter {
    /// The last labels that were decoded.
    last: (Vec<u8>, Arc<Labels>),
}

impl EntrySplitter {
    /// The batches of an entry. Its checksum is valid, so the bytes are those that were written.
    pub(super) fn split(&mut self, entry: BufferedBatch) -> Vec<ShippedBatch> {
        let BufferedBatch { labels, mut frame, .. } = entry;
        let (mut labels, mut batches) = (ByteReader(&labels), Vec::new());
        while let Some(header) = frame.first_chunk().and_then(|header| FrameHeader::parse(header).ok()) {
            let Some(rest) = frame.split_off_checked(header.frame_len()) else { break };
            let labels = labels.varint_u32().and_then(|length| labels.bytes(length as usize));
            let text_bytes = header.body_len.saturating_sub(header.row_meta_len) as usize;
            batches.push(ShippedBatch {
                labels: self.decode(labels.unwrap_or_default()),
                frame: std::mem::replace(&mut frame, rest),
                records: header.count,
                text_bytes,
                ticket: None,
            });
        }
        batches
    }

    fn decode(&mut self, encoded: &[u8]) -> Arc<Labels> {
        if self.last.0 != encoded {
            self.last = (encoded.to_vec(), Arc::new(Labels::decode(encoded).unwrap_or_default()));
        }
        Arc::clone(&self.last.1)
    }
}

/// [`Vec::split_off`] that checks the length.
trait SplitOffChecked: Sized {
    fn split_off_checked(&mut self, at: u64) -> Option<Self>;
}

impl SplitOffChecked for Vec<u8> {
    fn split_off_checked(&mut self, at: u64) -> Option<Self> {
        let at = usize::try_from(at).ok().filter(|at| *at <= self.len())?;
        Some(self.split_off(at))
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Id, Millis};
    use bucksaw_wire::Batch;

    use super::*;

    fn frame(text: &[u8]) -> Vec<u8> {
        let (first_id, count) = (Id::first_at(Millis(5)), text.len() as u32 / 2);
        Batch { first_id, count, accepted: Millis(5), layout_bits: 0, row_meta: &[], text }.encode()
    }

    #[test]
    fn an_entry_is_split_into_its_batches() {
        let (one, two) = (Labels::parse("app=one").unwrap(), Labels::parse("app=two,x=y").unwrap());
        let (mut labels, frames) = (Vec::new(), [frame(b"a\nb\n"), frame(b"c\n"), frame(b"d\n")]);
        [&one, &two, &two].iter().for_each(|of| put_labels(of, &mut labels));
        let entry = BufferedBatch { number: 7, labels, frame: frames.concat(), records: 4 };
        let batches = EntrySplitter::default().split(entry);
        let found: Vec<_> =
            batches.iter().map(|batch| (&*batch.labels, &batch.frame, batch.records, batch.text_bytes)).collect();
        let [first, second, third] = &frames;
        assert_eq!(found, [(&one, first, 2, 4), (&two, second, 1, 2), (&two, third, 1, 2)]);
        assert!(matches!(&batches[..], [_, second, third] if Arc::ptr_eq(&second.labels, &third.labels)));
    }
}
