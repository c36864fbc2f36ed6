//! A block of a stored segment as a unit.
//!
//! A columnar block is searched as columns. Where that took more work than a search of its text would have, the work is summed up,
//! and once it exceeds that of building the text, the text is built and kept in the block cache while there is room. From then on
//! each query searches what is cheaper for it, by the work of its own search so far (see [`SearchCosts`](bucksaw_scan::SearchCosts))
//! and of the same question before, or of others that the block remembers. As far as the weights of the work are right, a block is
//! searched at no more than about twice the cost of the better way.

use std::sync::Arc;

use bucksaw_scan::{BoundPlan, Plan};
use bucksaw_segment::stored::SearchableBlock;
use bucksaw_segment::{Block, BlockFilter, ColumnarBlock, ReadError, RecordSummary};
use bucksaw_store::BlockRef;

use crate::block_cache::{BlockCache, CachedBlock};
use crate::column_scan::{self, ColumnScan};
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
        let question = plan.costs().question();
        let search_text = |block: &Block, visit: Visit<'_>| {
            let scanned = scan_text(request, plan, cancel, visit, &mut |visit| {
                let _ = block.chunks().try_for_each(|chunk| visit(&chunk));
            });
            if let Some(rate) = plan.costs().measured_text_rate() {
                self.block_cache.text_rates.note(question, rate);
            }
            scanned
        };
        let text = self.block_cache.text(key);
        if let (Some(_), Some(rate)) = (&text, self.block_cache.text_rates.get(question)) {
            plan.costs().expect_text_rate(rate);
        }
        let text_bytes = self.summary().map_or(0, |summary| summary.text_bytes);
        let work_max = match &text {
            Some(_) => plan.costs().columns_work_max(text_bytes),
            None => Some(u64::MAX),
        };
        let (opened, work_max, was_cached) = match (&text, self.block_cache.get(key), work_max) {
            (Some(text), Some(opened), _) if opened.prefers_text(question, plan.costs().of_text(text_bytes)) => {
                return Ok(search_text(text, visit));
            }
            (_, Some(opened), Some(work_max)) => (opened, work_max, true),
            (Some(text), _, _) => return Ok(search_text(text, visit)),
            (None, ..) => (Arc::new(self.open()?), u64::MAX, false),
        };
        let damaged = || source.mark_damaged(*index, "the columns of the block cannot be decoded");
        // The work of a search that was stopped halfway says nothing about the next one.
        let note_work = |work| {
            if !cancel.has_stopped() {
                opened.note_columns_work(question, work);
            }
        };
        let scanned = match &opened.block {
            SearchableBlock::Text(block) => search_text(block, visit),
            SearchableBlock::Columns(block) => {
                let scan = column_scan::scan(block, request, plan, cancel, (limit, work_max), visit);
                match (scan.ok_or_else(damaged)?, text) {
                    (ColumnScan::Done { scanned, work }, None) => {
                        note_work(work);
                        let excess = work.saturating_sub(plan.costs().of_text(text_bytes));
                        // A block that is searched only once needs no text.
                        let build_work = block.columns.text_work();
                        if self.block_cache.is_text_due(&opened, excess, text_bytes, build_work) && was_cached {
                            self.block_cache.insert_text(key, text_of(block).ok_or_else(damaged)?);
                        }
                        scanned
                    }
                    (ColumnScan::Done { scanned, work }, Some(_)) => {
                        note_work(work);
                        // The search of one text cannot be stopped halfway.
                        if work > work_max {
                            plan.costs().note_dear_columns();
                        }
                        scanned
                    }
                    (ColumnScan::TooDear, Some(text)) => {
                        opened.note_columns_work(question, work_max.saturating_mul(2));
                        plan.costs().note_dear_columns();
                        search_text(&text, visit)
                    }
                    // Without a text the work is not limited.
                    (ColumnScan::TooDear, None) => 0,
                }
            }
        };
        self.block_cache.insert(key, &opened);
        Ok(scanned)
    }

    fn open(&self) -> Result<CachedBlock, ReadError> {
        let BlockRef { source, index } = &self.block;
        let mut block = source.open(*index)?;
        if let SearchableBlock::Columns(columns) = &mut block
            && let Some(filter) = self.block_cache.cached_filter((source.id(), *index))
        {
            columns.escaped_bytes = BlockFilter::new(&filter).escaped_bytes();
        }
        Ok(CachedBlock::new(block))
    }

    /// Whether the skip filter admits a match in one of the requested streams.
    fn may_match(&self, request: &Request, plan: &Plan) -> bool {
        let BlockRef { source, index } = &self.block;
        // Without a readable filter the block is searched, which detects its damage.
        let filter = || self.block_cache.filter((source.id(), *index), || source.filter(*index)).ok();
        self.admits_match(request, plan, filter)
    }

    /// Whether the skip filter is known to admit no match, without reading it.
    pub(crate) fn is_known_to_match_nothing(&self, request: &Request, plan: &Plan) -> bool {
        let BlockRef { source, index } = &self.block;
        !self.admits_match(request, plan, || self.block_cache.cached_filter((source.id(), *index)))
    }

    /// Whether a match is possible; without a filter it is.
    fn admits_match(&self, request: &Request, plan: &Plan, filter: impl FnOnce() -> Option<Arc<Vec<u8>>>) -> bool {
        let BlockRef { source, index } = &self.block;
        let labels = source.streams(*index).into_iter();
        let bounds: Vec<BoundPlan> =
            labels.filter(|labels| request.matches_stream(labels)).map(|labels| plan.bind(labels)).collect();
        if bounds.iter().any(|bound| matches!(bound, BoundPlan::All)) {
            return true;
        }
        filter().is_none_or(|filter| {
            let may_match =
                |has_attributes| bounds.iter().any(|bound| bound.may_match(BlockFilter::new(&filter), has_attributes));
            may_match(false) || (may_match(true) && source.may_have_attributes(*index))
        })
    }
}

/// The block with its text, which shares the rows.
fn text_of(block: &ColumnarBlock) -> Option<Block> {
    Block::from_parts(block.columns.text()?, block.slices.clone())
}
