//! A block of a store segment as a unit of work: whether it may have what is asked for, and how it is searched.

use std::sync::Arc;

use bucksaw_scan::{BoundPlan, Plan};
use bucksaw_segment::stored::SearchableBlock;
use bucksaw_segment::{BlockFilter, ReadError, RecordSummary};
use bucksaw_store::BlockRef;

use crate::block_cache::BlockCache;
use crate::column_scan;
use crate::request::{Cancel, Request};
use crate::text_scan::{Visit, scan_text};

/// A block of a segment.
#[derive(Clone, Debug)]
pub(crate) struct BlockUnit {
    pub(crate) block: BlockRef,
    pub(crate) block_cache: Arc<BlockCache>,
}

impl BlockUnit {
    pub(crate) fn reach(&self) -> Option<&RecordSummary> {
        self.block.source.summary(self.block.index)
    }

    /// Memory, in bytes, that a scan takes.
    pub(crate) fn scan_bytes(&self) -> u64 {
        self.block.source.scan_bytes(self.block.index)
    }

    /// Hands over what may match. Returns bytes of text that were searched.
    pub(crate) fn scan(
        &self,
        request: &Request,
        plan: &Plan,
        cancel: &Cancel,
        most: usize,
        each: Visit<'_>,
    ) -> Result<u64, ReadError> {
        if !self.may_match(request, plan) {
            return Ok(0);
        }
        let BlockRef { source, index } = &self.block;
        let key = (source.id(), *index);
        let form = match self.block_cache.get(key) {
            Some(form) => form,
            None => Arc::new(source.open(*index)?),
        };
        let scanned = match &*form {
            SearchableBlock::Text(block) => scan_text(request, plan, cancel, each, &mut |each| {
                let _ = block.chunks().try_for_each(|chunk| each(&chunk));
            }),
            SearchableBlock::Columns(columned) => column_scan::scan(columned, request, plan, cancel, most, each)
                .ok_or_else(|| source.mark_damaged(*index, "the columns of the block do not unpack"))?,
        };
        self.block_cache.insert(key, &form);
        Ok(scanned)
    }

    /// Whether the filter of the block lets the question through for one of its streams.
    fn may_match(&self, request: &Request, plan: &Plan) -> bool {
        let BlockRef { source, index } = &self.block;
        let labels = source.streams(*index).into_iter();
        let bounds: Vec<BoundPlan> =
            labels.filter(|labels| request.matches_stream(labels)).map(|labels| plan.bind(labels)).collect();
        if bounds.iter().any(|bound| matches!(bound, BoundPlan::All)) {
            return true;
        }
        // A filter that cannot be read leaves nothing out; the block itself says whether it is damaged.
        let filter = self.block_cache.filter((source.id(), *index), || source.filter(*index));
        filter.map_or(true, |filter| bounds.iter().any(|bound| bound.may_match(BlockFilter::new(&filter))))
    }
}
