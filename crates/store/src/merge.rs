//! Merging by id: opens units in the order of their lowest ids, takes whole runs of rows where nothing interleaves, and
//! drops ids that come twice.
//!
//! At any moment only those units are open whose spans overlap the place that the merge has come to. A large block that
//! overlaps nothing is carried over as it is, without being unpacked, unless it was packed quickly.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use bucksaw_record::Id;
use bucksaw_segment::stored::{PackedBlock, Writer};
use bucksaw_segment::{BlockBuilder, Codec};

use crate::throttle::ThrottledTask;
use crate::unit::{InputError, MergeCursor, MergeUnit, UnitReader};

/// Where a merge's records go: into files of a certain size.
pub(crate) trait MergeOutput {
    /// The writer for the next block.
    fn writer(&mut self) -> io::Result<&mut Writer>;
}

/// Why a merge was given up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MergeError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
    /// Whoever ordered the merge wants it no more.
    #[error("stopped")]
    Stopped,
}

/// How a merge is done.
pub(crate) struct SegmentMerge<'a> {
    pub(crate) block_bytes: u64,
    pub(crate) codec: Codec,
    /// Segments that were packed quickly, by this codec, are packed anew in any case.
    pub(crate) recompress_codec: Option<Codec>,
    pub(crate) throttle: &'a ThrottledTask<'a>,
    pub(crate) is_stopped: &'a dyn Fn() -> bool,
}

impl SegmentMerge<'_> {
    /// Merges the units into the output.
    pub(crate) fn run(
        &self,
        mut inputs: UnitReader,
        mut units: Vec<MergeUnit>,
        output: &mut impl MergeOutput,
    ) -> Result<(), MergeError> {
        units.sort_by_key(|unit| (unit.low, unit.high));
        let mut units = units.into_iter().peekable();
        let mut cursors: Vec<Option<MergeCursor>> = Vec::new();
        let mut heap: BinaryHeap<Reverse<(Id, usize)>> = BinaryHeap::new();
        let mut builder = BlockBuilder::default();
        let mut last: Option<Id> = None;
        loop {
            while let Some(unit) = units.next_if(|unit| heap.peek().is_none_or(|Reverse((head, _))| unit.low <= *head))
            {
                self.yield_to_queries()?;
                let alone = heap.is_empty() && units.peek().is_none_or(|next| unit.high < next.low);
                if let Some(block) = self.copied_block(&unit, alone && last.is_none_or(|last| last < unit.low))? {
                    self.flush(&mut builder, output)?;
                    output.writer()?.copy_block(&block)?;
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
                let others = heap.peek().map_or(Id::MAX, |Reverse((head, _))| *head);
                let limit = others.min(units.peek().map_or(Id::MAX, |unit| unit.low));
                // When another has the same id next, one row settles who is first.
                let count = cursor.count_below(limit).max(1);
                let first_row = cursor.row;
                let (labels, rows) = (cursor.labels.clone(), std::sync::Arc::clone(&cursor.rows));
                let text = cursor.take_rows(count);
                builder.push(&labels, &rows, first_row..first_row + count, text);
                last = rows.id(first_row + count - 1);
                if builder.text_bytes() >= self.block_bytes {
                    self.flush(&mut builder, output)?;
                }
            }
            match cursor.next_id() {
                Some(next) => heap.push(Reverse((next, at))),
                None => {
                    if let Some(place) = cursors.get_mut(at) {
                        *place = None;
                    }
                    if heap.is_empty() {
                        cursors.clear();
                    }
                }
            }
        }
        self.flush(&mut builder, output)
    }

    /// Lets queries go first.
    fn yield_to_queries(&self) -> Result<(), MergeError> {
        self.throttle.yield_to_queries(self.is_stopped);
        if (self.is_stopped)() { Err(MergeError::Stopped) } else { Ok(()) }
    }

    /// The block to be carried over as it is: when it is large enough to stand by itself and nothing interleaves with it.
    fn copied_block(&self, unit: &MergeUnit, alone: bool) -> Result<Option<PackedBlock>, MergeError> {
        match unit.as_block() {
            Some((segment, block, text_bytes))
                if alone && text_bytes >= self.block_bytes / 2 && !segment.is_quickly_packed(self.recompress_codec) =>
            {
                let read = segment.reader().packed_block(block);
                Ok(Some(read.map_err(|source| InputError { segment: segment.id(), source })?))
            }
            _ => Ok(None),
        }
    }

    fn flush(&self, builder: &mut BlockBuilder, output: &mut impl MergeOutput) -> Result<(), MergeError> {
        if !builder.is_empty() {
            self.yield_to_queries()?;
            output.writer()?.append(builder, self.codec)?;
        }
        Ok(())
    }
}
