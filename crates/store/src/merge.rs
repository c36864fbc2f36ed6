//! Merges units by id. Runs of rows that do not interleave with other units are copied as a whole, and duplicate ids are
//! dropped.
//!
//! Units are opened in the order of their lowest ids, so only those are open that overlap the current position. A large
//! block that overlaps no other is copied without being decoded, unless it was compressed with the quick codec.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bucksaw_record::Id;
use bucksaw_segment::stored::PackedBlock;
use bucksaw_segment::{BlockBuilder, Codec};

use crate::error::StoreError;
use crate::segment_store::SegmentDraft;
use crate::throttle::ThrottledTask;
use crate::unit::{MergeCursor, MergeUnit, UnitReader};

/// The output of a merge: one or more files.
pub(crate) trait MergeOutput {
    /// The file for the next block.
    fn draft(&mut self) -> Result<&mut SegmentDraft, StoreError>;
}

impl MergeOutput for SegmentDraft {
    fn draft(&mut self) -> Result<&mut SegmentDraft, StoreError> {
        Ok(self)
    }
}

pub(crate) struct SegmentMerge<'a> {
    /// Bytes of text of all units, by which memory is reserved.
    pub(crate) text_bytes: u64,
    pub(crate) block_bytes: u64,
    pub(crate) codec: Codec,
    /// Blocks that gathering compressed with this codec are always recompressed.
    pub(crate) recompress_codec: Option<Codec>,
    pub(crate) throttle: &'a ThrottledTask<'a>,
    pub(crate) is_stopped: &'a dyn Fn() -> bool,
}

impl<'a> SegmentMerge<'a> {
    /// A merge that packs everything anew and that nothing stops.
    pub(crate) fn of(text_bytes: u64, block_bytes: u64, codec: Codec, throttle: &'a ThrottledTask<'a>) -> Self {
        Self { text_bytes, block_bytes, codec, recompress_codec: None, throttle, is_stopped: &|| false }
    }

    pub(crate) fn run(
        &self,
        mut inputs: UnitReader,
        mut units: Vec<MergeUnit>,
        output: &mut impl MergeOutput,
    ) -> Result<(), StoreError> {
        units.sort_by_key(|unit| (unit.low, unit.high));
        let mut units = units.into_iter().peekable();
        let mut cursors: Vec<Option<MergeCursor>> = Vec::new();
        let mut heap: BinaryHeap<Reverse<(Id, usize)>> = BinaryHeap::new();
        // Blocks are a little longer than that.
        let capacity = self.text_bytes.min(self.block_bytes + self.block_bytes / 16);
        let mut builder = BlockBuilder::with_capacity(capacity as usize);
        let mut last: Option<Id> = None;
        loop {
            while let Some(unit) = units.next_if(|unit| heap.peek().is_none_or(|Reverse((head, _))| unit.low <= *head))
            {
                self.yield_to_queries()?;
                let is_alone = heap.is_empty() && units.peek().is_none_or(|next| unit.high < next.low);
                let is_alone = is_alone && last.is_none_or(|last| last < unit.low);
                if let Some(block) = self.copied_block(&inputs, &unit, is_alone)? {
                    self.flush(&mut builder, output)?;
                    let SegmentDraft { writer, file } = output.draft()?;
                    writer.copy_block(&block).map_err(StoreError::io("write", &file.path))?;
                    last = Some(unit.high);
                    continue;
                }
                for cursor in inputs.open(&unit)? {
                    if let Some(next) = cursor.next_id() {
                        heap.push(Reverse((next, cursors.len())));
                        cursors.push(Some(cursor));
                    }
                }
            }
            let Some(Reverse((id, at))) = heap.pop() else { break };
            let Some(cursor) = cursors.get_mut(at).and_then(Option::as_mut) else { continue };
            if last == Some(id) {
                cursor.take_rows(1);
            } else {
                let next_id = heap.peek().map_or(Id::MAX, |Reverse((head, _))| *head);
                let limit = next_id.min(units.peek().map_or(Id::MAX, |unit| unit.low));
                // If another cursor has the same id, this row is the one that is kept.
                let count = cursor.count_below(limit).max(1);
                let first_row = cursor.row;
                let (labels, rows) = (cursor.labels.clone(), std::sync::Arc::clone(&cursor.rows));
                let text = cursor.take_rows(count);
                builder.push(&labels, &rows, first_row..first_row + count, text);
                last = rows.id(first_row + count - 1);
            }
            match cursor.next_id() {
                Some(next) => heap.push(Reverse((next, at))),
                None => {
                    if let Some(cursor) = cursors.get_mut(at) {
                        *cursor = None;
                    }
                    if heap.is_empty() {
                        cursors.clear();
                    }
                }
            }
            // The text of units that are finished is freed before a block is encoded.
            if builder.text_bytes() >= self.block_bytes {
                self.flush(&mut builder, output)?;
            }
        }
        self.flush(&mut builder, output)
    }

    /// Waits while queries run, as the throttle says.
    fn yield_to_queries(&self) -> Result<(), StoreError> {
        self.throttle.yield_to_queries(self.is_stopped);
        if (self.is_stopped)() { Err(StoreError::Stopped) } else { Ok(()) }
    }

    /// Reads the packed block of a unit, if it can be copied: it is large enough to stay, and nothing interleaves with it.
    fn copied_block(
        &self,
        inputs: &UnitReader,
        unit: &MergeUnit,
        is_alone: bool,
    ) -> Result<Option<PackedBlock>, StoreError> {
        match unit.as_block() {
            Some((segment, block, text_bytes))
                if is_alone
                    && text_bytes >= self.block_bytes / 2
                    && !segment.is_quickly_packed(self.recompress_codec)
                    && inputs.reads_all_records(segment, block) =>
            {
                segment.reader().packed_block(block).map(Some).map_err(StoreError::input(segment.id()))
            }
            _ => Ok(None),
        }
    }

    fn flush(&self, builder: &mut BlockBuilder, output: &mut impl MergeOutput) -> Result<(), StoreError> {
        if !builder.is_empty() {
            self.yield_to_queries()?;
            let SegmentDraft { writer, file } = output.draft()?;
            writer.append(builder, self.codec).map_err(StoreError::io("write", &file.path))?;
        }
        Ok(())
    }
}
