//! Merging by id: opens units in the order of their lowest ids, takes whole runs of rows where nothing interleaves, and
//! drops ids that come twice.
//!
//! At any moment only those units are open whose spans overlap the place that the merge has come to. A large block that
//! overlaps nothing is carried over as it is, without being unpacked, unless it was packed quickly.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use bucksaw_record::Id;
use bucksaw_segment::shelf::{PackedBlock, Writer};
use bucksaw_segment::{BlockBuilder, Codec};

use crate::aside::Turns;
use crate::unit::{InputError, Inputs, Piece, Unit};

/// Where a merge's records go: into files of a certain size.
pub(crate) trait Output {
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
pub(crate) struct Merge<'a> {
    pub(crate) block_bytes: u64,
    pub(crate) codec: Codec,
    /// Segments that were packed quickly, by this codec, are packed anew in any case.
    pub(crate) quick: Option<Codec>,
    pub(crate) turns: &'a Turns<'a>,
    pub(crate) stopped: &'a dyn Fn() -> bool,
}

impl Merge<'_> {
    /// Merges the units into the output.
    pub(crate) fn run(
        &self,
        mut inputs: Inputs,
        mut units: Vec<Unit>,
        output: &mut impl Output,
    ) -> Result<(), MergeError> {
        units.sort_by_key(|unit| (unit.low, unit.high));
        let mut units = units.into_iter().peekable();
        let mut pieces: Vec<Option<Piece>> = Vec::new();
        let mut heap: BinaryHeap<Reverse<(Id, usize)>> = BinaryHeap::new();
        let mut builder = BlockBuilder::default();
        let mut last: Option<Id> = None;
        loop {
            while let Some(unit) = units.next_if(|unit| heap.peek().is_none_or(|Reverse((head, _))| unit.low <= *head))
            {
                self.wait_for_turn()?;
                let alone = heap.is_empty() && units.peek().is_none_or(|next| unit.high < next.low);
                if let Some(block) = self.as_carried(&unit, alone && last.is_none_or(|last| last < unit.low))? {
                    self.flush(&mut builder, output)?;
                    output.writer()?.carry(&block)?;
                    last = Some(unit.high);
                    continue;
                }
                for piece in inputs.open(&unit)? {
                    if let Some(next) = piece.next() {
                        heap.push(Reverse((next, pieces.len())));
                        pieces.push(Some(piece));
                    }
                }
            }
            let Some(Reverse((id, at))) = heap.pop() else { break };
            let Some(piece) = pieces.get_mut(at).and_then(Option::as_mut) else { continue };
            if last == Some(id) {
                piece.take(1);
            } else {
                let others = heap.peek().map_or(Id::MAX, |Reverse((head, _))| *head);
                let limit = others.min(units.peek().map_or(Id::MAX, |unit| unit.low));
                // When another has the same id next, one row settles who is first.
                let count = piece.below(limit).max(1);
                let first_row = piece.row;
                let (labels, rows) = (piece.labels.clone(), std::sync::Arc::clone(&piece.rows));
                let text = piece.take(count);
                builder.push(&labels, &rows, first_row..first_row + count, text);
                last = rows.id(first_row + count - 1);
                if builder.text_bytes() >= self.block_bytes {
                    self.flush(&mut builder, output)?;
                }
            }
            match piece.next() {
                Some(next) => heap.push(Reverse((next, at))),
                None => {
                    if let Some(place) = pieces.get_mut(at) {
                        *place = None;
                    }
                    if heap.is_empty() {
                        pieces.clear();
                    }
                }
            }
        }
        self.flush(&mut builder, output)
    }

    /// Lets queries go first.
    fn wait_for_turn(&self) -> Result<(), MergeError> {
        self.turns.step_aside(self.stopped);
        if (self.stopped)() { Err(MergeError::Stopped) } else { Ok(()) }
    }

    /// The block to be carried over as it is: when it is large enough to stand by itself and nothing interleaves with it.
    fn as_carried(&self, unit: &Unit, alone: bool) -> Result<Option<PackedBlock>, MergeError> {
        match unit.as_block() {
            Some((segment, block, text_bytes))
                if alone && text_bytes >= self.block_bytes / 2 && !segment.is_quick(self.quick) =>
            {
                let read = segment.reader().packed_block(block);
                Ok(Some(read.map_err(|source| InputError { segment: segment.id(), source })?))
            }
            _ => Ok(None),
        }
    }

    fn flush(&self, builder: &mut BlockBuilder, output: &mut impl Output) -> Result<(), MergeError> {
        if !builder.is_empty() {
            self.wait_for_turn()?;
            output.writer()?.append(builder, self.codec)?;
        }
        Ok(())
    }
}
