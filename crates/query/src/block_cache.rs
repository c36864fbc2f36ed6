//! Decoded blocks and skip filters, kept for later queries: people search the same hours again and again.
//!
//! A cached block keeps its decoded columns, so a repeated search does not read, verify and decode it again. The text of a block
//! whose columns are dear to search is kept beside them while there is room. A scan of more blocks than fit does not evict frequently used ones: the eviction policy is a variant of S3-FIFO (Yang et al.,
//! "FIFO queues are all you need for cache eviction", SOSP 2023).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bucksaw_record::Id;
use bucksaw_segment::Block;
use bucksaw_segment::stored::SearchableBlock;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder};

use crate::question_work::QuestionWork;

/// Initial capacity of the cache's tables, in entries.
const ENTRIES_EXPECTED: usize = 1_024;

/// Overhead of an entry: its key, and the cache's own.
const ENTRY_BYTES: u64 = 128;

/// One part in this many of the cache is left to blocks and filters when texts are added.
const FREE_PARTS: u64 = 8;

/// Questions of which a block remembers the work.
const QUESTIONS: usize = 8;

/// Questions that must be remembered before they say something about others.
const QUESTIONS_MIN: usize = 3;

/// One in this many searches of the text for a question that is not remembered searches the columns instead.
const COLUMNS_RETRY: u64 = 16;

/// Questions of which the cache remembers what their searches of text take.
const TEXT_QUESTIONS: usize = 256;

/// Segment id and number of a block. Segments never change, and no id is used twice.
type BlockKey = (Id, usize);

/// A block for searches, and what they cost.
#[derive(Debug)]
pub(crate) struct CachedBlock {
    pub(crate) block: SearchableBlock,
    /// The work of searches of columns beyond that of searches of the text.
    excess_work: AtomicU64,
    /// The work of searches of the columns.
    columns_work: QuestionWork<QUESTIONS>,
    /// Searches of the text for questions that are not remembered.
    unknown_questions: AtomicU64,
}

impl CachedBlock {
    pub(crate) fn new(block: SearchableBlock) -> Self {
        Self {
            block,
            excess_work: AtomicU64::new(0),
            columns_work: QuestionWork::new(),
            unknown_questions: AtomicU64::new(0),
        }
    }

    /// Remembers what a search of the columns for this question took. `question` is a hash.
    pub(crate) fn note_columns_work(&self, question: u64, work: u64) {
        self.columns_work.note(question, work);
    }

    /// Whether searching the columns for this question is likely to take more than `text_work`: if it did before, or if it is not
    /// remembered and all others that are did. One cheap question among these is enough to try the columns.
    pub(crate) fn prefers_text(&self, question: u64, text_work: u64) -> bool {
        if let Some(work) = self.columns_work.get(question) {
            return work > text_work;
        }
        let dear = self.columns_work.all().map(|work| work > text_work);
        let (count, are_all_dear) = dear.fold((0, true), |(count, all), dear| (count + 1, all && dear));
        count >= QUESTIONS_MIN
            && are_all_dear
            && !self.unknown_questions.fetch_add(1, Ordering::Relaxed).wrapping_add(1).is_multiple_of(COLUMNS_RETRY)
    }
}

/// The part of a block that an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CachedPart {
    Filter,
    Block,
    Text,
}

type EntryKey = (BlockKey, CachedPart);

#[derive(Clone)]
enum CacheEntry {
    Filter(Arc<Vec<u8>>),
    /// With its size when it was inserted.
    Block(Arc<CachedBlock>, u64),
    Text(Arc<Block>),
}

#[derive(Clone)]
struct EntryWeighter;

impl quick_cache::Weighter<EntryKey, CacheEntry> for EntryWeighter {
    fn weight(&self, _: &EntryKey, entry: &CacheEntry) -> u64 {
        ENTRY_BYTES
            + match entry {
                CacheEntry::Filter(bytes) => bytes.len() as u64,
                CacheEntry::Block(_, bytes) => *bytes,
                CacheEntry::Text(text) => text.memory() as u64,
            }
    }
}

/// The limits of a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockCacheLimits {
    pub(crate) bytes_max: u64,
    /// See [`Config`](crate::Config).
    pub(crate) text_build_percent: u64,
}

/// A cache of blocks, of the texts of some, and of skip filters, limited in bytes.
#[derive(Debug)]
pub(crate) struct BlockCache {
    entries: Option<Cache<EntryKey, CacheEntry, EntryWeighter>>,
    limits: BlockCacheLimits,
    /// The rates of searches of text: see [`bucksaw_scan::SearchCosts`].
    pub(crate) text_rates: QuestionWork<TEXT_QUESTIONS>,
    bytes: Gauge,
    pub(crate) hits: Counter,
    misses: Counter,
}

impl BlockCache {
    /// Keeps nothing if `bytes_max` is 0.
    pub(crate) fn new(limits: BlockCacheLimits, bytes: Gauge, hits: Counter, misses: Counter) -> Self {
        let bytes_max = limits.bytes_max;
        // One shard: entries are large, so the shards of several would be full at different times, and a block could be evicted
        // at each query while there is room in others. A query asks only for some entries per block.
        let mut options = OptionsBuilder::new();
        options.shards(1).estimated_items_capacity(ENTRIES_EXPECTED).weight_capacity(bytes_max);
        let options = options.build().ok().filter(|_| bytes_max > 0);
        let entries = options.map(|options| {
            Cache::with_options(options, EntryWeighter, DefaultHashBuilder::default(), DefaultLifecycle::default())
        });
        Self { entries, limits, text_rates: QuestionWork::new(), bytes, hits, misses }
    }

    /// The skip filter of a block, read with `read` if it is not cached.
    pub(crate) fn filter<E>(
        &self,
        key: BlockKey,
        read: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<Vec<u8>>, E> {
        if let Some(filter) = self.cached_filter(key) {
            return Ok(filter);
        }
        let filter = Arc::new(read()?);
        self.insert_entry((key, CachedPart::Filter), CacheEntry::Filter(Arc::clone(&filter)));
        Ok(filter)
    }

    /// The skip filter of a block, if it is cached.
    pub(crate) fn cached_filter(&self, key: BlockKey) -> Option<Arc<Vec<u8>>> {
        match self.entries.as_ref()?.get(&(key, CachedPart::Filter))? {
            CacheEntry::Filter(filter) => Some(filter),
            _ => None,
        }
    }

    /// A block, if it is cached.
    pub(crate) fn get(&self, key: BlockKey) -> Option<Arc<CachedBlock>> {
        let Some(CacheEntry::Block(block, _)) = self.entries.as_ref()?.get(&(key, CachedPart::Block)) else {
            self.misses.inc();
            return None;
        };
        self.hits.inc();
        Some(block)
    }

    /// Inserts a block after it was searched, or updates its size, which grows as more of it is decoded.
    pub(crate) fn insert(&self, key: BlockKey, block: &Arc<CachedBlock>) {
        let bytes = block.block.memory() as u64;
        let known_bytes = match self.entries.as_ref().and_then(|cache| cache.peek(&(key, CachedPart::Block))) {
            Some(CacheEntry::Block(_, bytes)) => bytes,
            _ => 0,
        };
        if bytes != known_bytes {
            self.insert_entry((key, CachedPart::Block), CacheEntry::Block(Arc::clone(block), bytes));
        }
    }

    /// The text of a columnar block, if it is cached.
    pub(crate) fn text(&self, key: BlockKey) -> Option<Arc<Block>> {
        match self.entries.as_ref()?.get(&(key, CachedPart::Text))? {
            CacheEntry::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Adds the work that a search of columns took beyond that of a search of their text. Whether building the text, of
    /// `text_bytes`, takes less than the sum, and it can be kept without evicting anything.
    pub(crate) fn is_text_due(&self, block: &CachedBlock, excess: u64, text_bytes: u64, build_work: u64) -> bool {
        let sum = block.excess_work.fetch_add(excess, Ordering::Relaxed).saturating_add(excess);
        let used = self.entries.as_ref().map_or(u64::MAX, quick_cache::sync::Cache::weight);
        let room = self.limits.bytes_max - self.limits.bytes_max / FREE_PARTS;
        sum > build_work.saturating_mul(self.limits.text_build_percent) / 100 && used.saturating_add(text_bytes) <= room
    }

    /// Keeps the text of a columnar block.
    pub(crate) fn insert_text(&self, key: BlockKey, text: Block) {
        self.insert_entry((key, CachedPart::Text), CacheEntry::Text(text.into()));
    }

    fn insert_entry(&self, key: EntryKey, entry: CacheEntry) {
        if let Some(cache) = &self.entries {
            cache.insert(key, entry);
            self.bytes.set(i64::try_from(cache.weight()).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn cache(bytes_max: u64) -> BlockCache {
        let limits = BlockCacheLimits { bytes_max, text_build_percent: 200 };
        BlockCache::new(limits, Gauge::default(), Counter::default(), Counter::default())
    }

    #[test]
    fn a_text_is_due_after_as_much_work_as_building_it_while_there_is_room() {
        let rows = SearchableBlock::Text(Block::from_parts(Vec::new(), Vec::new()).unwrap());
        let (cache, small, block) = (cache(1 << 20), cache(1_100), CachedBlock::new(rows));
        let due = [10_000, 10_000, 1].map(|excess| cache.is_text_due(&block, excess, 1_000, 10_000));
        assert_eq!(due, [false, false, true]);
        assert!(!small.is_text_due(&block, 1, 1_000, 10_000), "no room");
        assert!(!cache.is_text_due(&block, 1, 1 << 20, 0) && !self::cache(0).is_text_due(&block, 1 << 40, 1, 1));
        assert!(cache.text((Id::MIN, 1)).is_none());
        cache.insert_text((Id::MIN, 1), Block::from_parts(Vec::new(), Vec::new()).unwrap());
        assert!(cache.text((Id::MIN, 1)).is_some() && cache.get((Id::MIN, 1)).is_none());
        assert_eq!(cache.bytes.get(), ENTRY_BYTES as i64);
    }

    #[test]
    fn a_question_is_expected_to_cost_what_it_did_or_what_all_others_did() {
        let rows = SearchableBlock::Text(Block::from_parts(Vec::new(), Vec::new()).unwrap());
        let block = CachedBlock::new(rows);
        let (dear, other, same_slot) = (0x1234_5600_0000_0003, 0x1234_5600_0000_0004, 0x9876_5400_0000_0003);
        assert!(!block.prefers_text(dear, 0) && !block.prefers_text(0, 0), "nothing is known yet");
        block.note_columns_work(dear, 1_600);
        assert_eq!([1_600, 1_500].map(|text| block.prefers_text(dear, text)), [false, true]);
        assert!(!block.prefers_text(other, 0) && !block.prefers_text(same_slot, 0), "one question says little");
        block.note_columns_work(same_slot, u64::MAX);
        assert!(block.prefers_text(same_slot, 1 << 30) && !block.prefers_text(dear, 0), "replaced");
        block.note_columns_work(other, 3_000);
        block.note_columns_work(0x5555_5500_0000_0005, 4_000);
        let of_text = |text_work| (0..16).filter(|_| block.prefers_text(dear, text_work)).count();
        assert_eq!((of_text(3_000), of_text(2_999)), (0, 15), "all others are dearer, and the columns are tried again");
    }

    #[test]
    fn large_entries_stay_while_there_is_room() {
        let cache = cache(64 * (16_000 + ENTRY_BYTES));
        for round in [0, 1] {
            for block in 0..60 {
                let mut is_read = false;
                let filter = cache.filter((Id::MIN, block), || {
                    is_read = true;
                    Ok::<_, Infallible>(vec![0; 16_000])
                });
                assert!(filter.is_ok() && is_read == (round == 0), "{block}");
            }
        }
    }

    #[test]
    fn cache_stays_within_its_bound() {
        let is_read = |cache: &BlockCache, block: usize| {
            let mut is_read = false;
            let filter = cache.filter((Id::MIN, block), || {
                is_read = true;
                Ok::<_, Infallible>(vec![block as u8; 1_000])
            });
            assert_eq!(filter.unwrap().as_slice(), [block as u8; 1_000]);
            is_read
        };
        let bounded = cache(1 << 20);
        assert_eq!([1, 2, 1, 2].map(|block| is_read(&bounded, block)), [true, true, false, false]);
        (0..10_000).for_each(|block| _ = is_read(&bounded, block));
        assert!((1_000..=1 << 20).contains(&bounded.bytes.get()), "{}", bounded.bytes.get());
        let disabled = cache(0);
        assert_eq!([1, 1].map(|block| is_read(&disabled, block)), [true, true]);
    }
}
