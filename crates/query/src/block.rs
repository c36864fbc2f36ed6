//! A block of a stored segment as a unit.

use std::sync::Arc;

use bucksaw_scan::{BoundPlan, Plan};
use bucksaw_segment::stored::SearchableBlock;
use bucksaw_segment::{BlockFilter, ReadError, RecordSummary};
use bucksaw_store::BlockRef;

use crate::block_cache::BlockCache;
use crate::column_scan;
use crate::request::{Cancel, Request};
use crate::text_scan::{Visit, scan_text};

/// A block, and the cache that keeps it for later queries.
#[derive(Clone, Debug)]
pub(crate) struct BlockUnit {
    pub(crate) block: BlockRef,
    pub(crate) block_cache: Arc<BlockCache>,
}

impl BlockUnit {
    pub(crate) fn summary(&self) -> Option<&RecordSummary> {
        self.block.source.summary(self.block.index)
    }

    /// Approximate memory of a scan, in bytes.
    pub(crate) fn scan_bytes(&self) -> u64 {
        self.block.source.scan_bytes(self.block.index)
    }

    /// As [`Unit::scan`](crate::unit::Unit::scan).
    pub(crate) fn scan(
        &self,
        request: &Request,
        plan: &Plan,
        cancel: &Cancel,
        limit: usize,
        visit: Visit<'_>,
    ) -> Result<u64, ReadError> {
        if !self.may_match(request, plan) {
            return Ok(0);
        }
        let BlockRef { source, index } = &self.block;
        let key = (source.id(), *index);
        let opened = match self.block_cache.get(key) {
            Some(block) => block,
            None => Arc::new(source.open(*index)?),
        };
        let scanned = match &*opened {
            SearchableBlock::Text(block) => scan_text(request, plan, cancel, visit, &mut |visit| {
                let _ = block.chunks().try_for_each(|chunk| visit(&chunk));
            }),
            SearchableBlock::Columns(block) => column_scan::scan(block, request, plan, cancel, limit, visit)
                .ok_or_else(|| source.mark_damaged(*index, "the columns of the block cannot be decoded"))?,
        };
        self.block_cache.insert(key, &opened);
        Ok(scanned)
    }

    /// Whether the skip filter admits a match in one of the requested streams.
    fn may_match(&self, request: &Request, plan: &Plan) -> bool {
        let BlockRef { source, index } = &self.block;
        let labels = source.streams(*index).into_iter();
        let bounds: Vec<BoundPlan> =
            labels.filter(|labels| request.matches_stream(labels)).map(|labels| plan.bind(labels)).collect();
        if bounds.iter().any(|bound| matches!(bound, BoundPlan::All)) {
            return true;
        }
        // Without a readable filter the block is searched, which detects its damage.
        let filter = self.block_cache.filter((source.id(), *index), || source.filter(*index));
        filter.map_or(true, |filter| {
            let may_match =
                |has_attributes| bounds.iter().any(|bound| bound.may_match(BlockFilter::new(&filter), has_attributes));
            may_match(false) || (may_match(true) && source.may_have_attributes(*index))
        })
    }
}
