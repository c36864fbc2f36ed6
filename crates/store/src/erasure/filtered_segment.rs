//! A stored segment without the records that erasures select, while its file may still have some.

use std::sync::Arc;

use bucksaw_record::{Id, Labels};
use bucksaw_segment::stored::SearchableBlock;
use bucksaw_segment::{Block, BlockFilter, Chunk, ReadError, RecordSummary, StreamSlice};

use super::erasure_set::ErasureSet;
use crate::store::BlockSource;
use crate::stored_segment::StoredSegment;

/// Multiplied by the number of the last erasure, this makes the id of a filtered segment differ from those of others.
const ID_FACTOR: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

/// A segment that is read through a filter.
#[derive(Debug)]
pub(crate) struct FilteredSegment {
    segment: Arc<StoredSegment>,
    erasures: ErasureSet,
}

impl FilteredSegment {
    /// The filter of a segment; `None` if it was checked for all erasures that overlap it.
    pub(crate) fn of(segment: &Arc<StoredSegment>, erasures: &ErasureSet) -> Option<Self> {
        let checked = segment.erasures_checked();
        if !erasures.overlaps(segment.reach(), checked) {
            return None;
        }
        let erasures = erasures.overlapping(segment.reach(), checked);
        Some(Self { segment: Arc::clone(segment), erasures })
    }

    /// The records of a block that remain; `None` if all do. Passes what is left out to `count`.
    pub(crate) fn remaining(
        &self,
        block: usize,
        count: &mut dyn FnMut(Id, u64, u64),
    ) -> Result<Option<Block>, ReadError> {
        let erasures = matching(&self.segment, &self.erasures, block);
        if erasures.is_empty() {
            return Ok(None);
        }
        let (text, slices) = self.segment.block(block)?.into_parts();
        let (mut new_text, mut new_slices, mut is_changed) = (Vec::with_capacity(text.len()), Vec::new(), false);
        for StreamSlice { labels, rows, range } in slices {
            let part = text.get(range).unwrap_or_default();
            let chunk = Chunk { labels: &labels, rows: Arc::clone(&rows), text: part };
            let retained = erasures.retained_counting(&chunk, count);
            let (rows, part) = match &retained {
                None => (rows, part),
                Some(retained) => {
                    is_changed = true;
                    (Arc::clone(&retained.rows), retained.text.as_slice())
                }
            };
            if rows.count > 0 {
                let start = new_text.len();
                new_text.extend_from_slice(part);
                new_slices.push(StreamSlice { labels, rows, range: start..new_text.len() });
            }
        }
        if !is_changed {
            return Ok(None);
        }
        let block_without = Block::from_parts(new_text, new_slices);
        block_without
            .map(Some)
            .ok_or_else(|| self.segment.mark_damaged(block, "the text of the block does not fit its rows"))
    }
}

/// The erasures that may select records of a block, by its time, its streams and its skip filter. A block whose filter cannot be
/// read may have some.
pub(crate) fn matching(segment: &StoredSegment, erasures: &ErasureSet, block: usize) -> ErasureSet {
    let Some(entry) = segment.footer().blocks.get(block) else { return ErasureSet::default() };
    let erasures = erasures.overlapping(&entry.summary, segment.erasures_checked());
    if erasures.is_empty() {
        return erasures;
    }
    let labels = BlockSource::streams(segment, block);
    let filter = segment.reader().filter(block);
    let has_attributes = segment.may_have_attributes(block);
    erasures.matching(labels.into_iter(), |bound| {
        let Ok(filter) = &filter else { return true };
        bound.may_match(BlockFilter::new(filter), false)
            || (has_attributes && bound.may_match(BlockFilter::new(filter), true))
    })
}

impl BlockSource for FilteredSegment {
    fn id(&self) -> Id {
        // Erasures only ever add to the filter, so the last number names the content.
        let number = u128::from(self.erasures.last_number());
        Id::from_bits(self.segment.id().bits() ^ number.wrapping_mul(ID_FACTOR))
    }

    fn name(&self) -> String {
        self.segment.name()
    }

    fn summary(&self, index: usize) -> Option<&RecordSummary> {
        self.segment.summary(index)
    }

    fn is_exact(&self, index: usize) -> bool {
        matching(&self.segment, &self.erasures, index).is_empty()
    }

    fn streams(&self, index: usize) -> Vec<&Labels> {
        BlockSource::streams(&*self.segment, index)
    }

    fn slices(&self, index: usize) -> Result<Vec<StreamSlice>, ReadError> {
        match self.remaining(index, &mut |_, _, _| {})? {
            None => self.segment.slices(index),
            Some(block) => Ok(block.into_parts().1),
        }
    }

    fn may_have_attributes(&self, index: usize) -> bool {
        self.segment.may_have_attributes(index)
    }

    fn scan_bytes(&self, index: usize) -> u64 {
        self.segment.scan_bytes(index).saturating_mul(2)
    }

    fn filter(&self, index: usize) -> Result<Vec<u8>, ReadError> {
        self.segment.filter(index)
    }

    fn open(&self, index: usize) -> Result<SearchableBlock, ReadError> {
        match self.remaining(index, &mut |_, _, _| {})? {
            None => self.segment.open(index),
            Some(block) => Ok(SearchableBlock::Text(block)),
        }
    }

    fn open_text(&self, index: usize) -> Result<Block, ReadError> {
        match self.remaining(index, &mut |_, _, _| {})? {
            None => self.segment.block(index),
            Some(block) => Ok(block),
        }
    }

    fn mark_damaged(&self, index: usize, what: &'static str) -> ReadError {
        self.segment.mark_damaged(index, what)
    }
}
