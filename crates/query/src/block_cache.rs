//! Decoded blocks and skip filters, kept for later queries: people search the same hours again and again.
//!
//! A cached block keeps its decoded columns, so a repeated search does not read, verify and decode it again. A scan of
//! more blocks than fit does not evict frequently used ones: the eviction policy is a variant of S3-FIFO (Yang et al.,
//! "FIFO queues are all you need for cache eviction", SOSP 2023).

use std::sync::Arc;

use bucksaw_record::Id;
use bucksaw_segment::stored::SearchableBlock;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use quick_cache::sync::Cache;

/// Initial capacity of the cache's tables, in entries.
const ENTRIES_EXPECTED: usize = 1_024;

/// Overhead of an entry: its key, and the cache's own.
const ENTRY_BYTES: u64 = 128;

/// Segment id and number of a block. Segments never change, and no id is used twice.
type BlockKey = (Id, usize);

#[derive(Clone)]
enum CacheEntry {
    Filter(Arc<Vec<u8>>),
    /// With its size when it was inserted.
    Block(Arc<SearchableBlock>, u64),
}

#[derive(Clone)]
struct EntryWeighter;

impl quick_cache::Weighter<(BlockKey, bool), CacheEntry> for EntryWeighter {
    fn weight(&self, _: &(BlockKey, bool), entry: &CacheEntry) -> u64 {
        ENTRY_BYTES
            + match entry {
                CacheEntry::Filter(bytes) => bytes.len() as u64,
                CacheEntry::Block(_, bytes) => *bytes,
            }
    }
}

/// A cache of blocks and their skip filters, limited in bytes.
#[derive(Debug)]
pub(crate) struct BlockCache {
    /// The second part of the key is whether the entry is a filter.
    entries: Option<Cache<(BlockKey, bool), CacheEntry, EntryWeighter>>,
    bytes: Gauge,
    pub(crate) hits: Counter,
    misses: Counter,
}

impl BlockCache {
    /// Keeps up to `bytes_max` bytes; none if that is 0.
    pub(crate) fn new(bytes_max: u64, bytes: Gauge, hits: Counter, misses: Counter) -> Self {
        let entries = (bytes_max > 0).then(|| Cache::with_weighter(ENTRIES_EXPECTED, bytes_max, EntryWeighter));
        Self { entries, bytes, hits, misses }
    }

    /// The skip filter of a block, read with `read` if it is not cached.
    pub(crate) fn filter<E>(
        &self,
        key: BlockKey,
        read: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<Vec<u8>>, E> {
        if let Some(CacheEntry::Filter(filter)) = self.entries.as_ref().and_then(|cache| cache.get(&(key, true))) {
            return Ok(filter);
        }
        let filter = Arc::new(read()?);
        self.insert_entry((key, true), CacheEntry::Filter(Arc::clone(&filter)));
        Ok(filter)
    }

    /// A block, if it is cached.
    pub(crate) fn get(&self, key: BlockKey) -> Option<Arc<SearchableBlock>> {
        let Some(CacheEntry::Block(block, _)) = self.entries.as_ref()?.get(&(key, false)) else {
            self.misses.inc();
            return None;
        };
        self.hits.inc();
        Some(block)
    }

    /// Inserts a block after it was searched, or updates its size, which grows as more of it is decoded.
    pub(crate) fn insert(&self, key: BlockKey, block: &Arc<SearchableBlock>) {
        let bytes = block.memory() as u64;
        let known_bytes = match self.entries.as_ref().and_then(|cache| cache.peek(&(key, false))) {
            Some(CacheEntry::Block(_, bytes)) => bytes,
            _ => 0,
        };
        if bytes != known_bytes {
            self.insert_entry((key, false), CacheEntry::Block(Arc::clone(block), bytes));
        }
    }

    fn insert_entry(&self, key: (BlockKey, bool), entry: CacheEntry) {
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
        BlockCache::new(bytes_max, Gauge::default(), Counter::default(), Counter::default())
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
