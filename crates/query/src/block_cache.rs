//! Blocks that were opened, kept for the next query: people ask the same hours again and again.
//!
//! What was unpacked of a block stays with it, so that a block that was searched once is searched again without being
//! read, checked and unpacked. The memory of all is bounded; a scan over more than fits does not drive out what is asked
//! for often (the cache's policy is a variant of S3-FIFO: Yang et al., "FIFO queues are all you need for cache eviction",
//! SOSP 2023).

use std::sync::Arc;

use bucksaw_record::Id;
use bucksaw_segment::stored::SearchableBlock;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use quick_cache::sync::Cache;

/// Blocks that are expected to be there at once, for the first size of the cache's tables.
const EXPECTED: usize = 1_024;

/// What is said of a block beside what it has: the key, and the cache's own.
const ENTRY_BYTES: u64 = 128;

/// A block of a segment. Segments never change, and no id is used twice.
type BlockKey = (Id, usize);

#[derive(Clone)]
enum CacheEntry {
    Filter(Arc<Vec<u8>>),
    /// With the bytes that it had when it was put here.
    Block(Arc<SearchableBlock>, u64),
}

#[derive(Clone)]
struct EntryWeighter;

impl quick_cache::Weighter<(BlockKey, bool), CacheEntry> for EntryWeighter {
    fn weight(&self, _: &(BlockKey, bool), kept: &CacheEntry) -> u64 {
        ENTRY_BYTES
            + match kept {
                CacheEntry::Filter(bytes) => bytes.len() as u64,
                CacheEntry::Block(_, bytes) => *bytes,
            }
    }
}

/// Opened blocks and their filters.
pub(crate) struct BlockCache {
    /// The key's second part is whether it is the filter.
    entries: Option<Cache<(BlockKey, bool), CacheEntry, EntryWeighter>>,
    bytes: Gauge,
    hits: Counter,
    misses: Counter,
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("bytes", &self.bytes.get()).finish_non_exhaustive()
    }
}

impl BlockCache {
    /// Keeps up to `bytes_max` bytes; nothing when that is 0.
    pub(crate) fn new(bytes_max: u64, bytes: Gauge, found: Counter, missed: Counter) -> Self {
        let kept = (bytes_max > 0).then(|| Cache::with_weighter(EXPECTED, bytes_max, EntryWeighter));
        Self { entries: kept, bytes, hits: found, misses: missed }
    }

    /// The filter of a block, read with `read` when it is not here.
    pub(crate) fn filter<E>(
        &self,
        key: BlockKey,
        read: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<Vec<u8>>, E> {
        if let Some(CacheEntry::Filter(filter)) = self.entries.as_ref().and_then(|kept| kept.get(&(key, true))) {
            return Ok(filter);
        }
        let filter = Arc::new(read()?);
        self.insert_entry((key, true), CacheEntry::Filter(Arc::clone(&filter)));
        Ok(filter)
    }

    /// A block, if it is here.
    pub(crate) fn get(&self, key: BlockKey) -> Option<Arc<SearchableBlock>> {
        let form = match self.entries.as_ref()?.get(&(key, false)) {
            Some(CacheEntry::Block(form, _)) => Some(form),
            _ => None,
        };
        if form.is_some() {
            self.hits.inc()
        } else {
            self.misses.inc()
        };
        form
    }

    /// Puts a block here after it was searched. To do so again takes note of what was unpacked of it meanwhile.
    pub(crate) fn insert(&self, key: BlockKey, form: &Arc<SearchableBlock>) {
        let bytes = form.memory() as u64;
        let noted = match self.entries.as_ref().and_then(|kept| kept.peek(&(key, false))) {
            Some(CacheEntry::Block(_, noted)) => noted,
            _ => 0,
        };
        if bytes != noted {
            self.insert_entry((key, false), CacheEntry::Block(Arc::clone(form), bytes));
        }
    }

    #[cfg(test)]
    pub(crate) fn hit_count(&self) -> u64 {
        self.hits.get()
    }

    fn insert_entry(&self, key: (BlockKey, bool), kept: CacheEntry) {
        if let Some(cache) = &self.entries {
            cache.insert(key, kept);
            self.bytes.set(i64::try_from(cache.weight()).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn opened(bytes_max: u64) -> BlockCache {
        BlockCache::new(bytes_max, Gauge::default(), Counter::default(), Counter::default())
    }

    #[test]
    fn cache_stays_within_its_bound() {
        let filter = |opened: &BlockCache, block: usize| {
            let mut read = false;
            let bytes = opened.filter((Id::MIN, block), || {
                read = true;
                Ok::<_, Infallible>(vec![block as u8; 1_000])
            });
            assert_eq!(bytes.unwrap().as_slice(), [block as u8; 1_000]);
            read
        };
        let some = opened(1 << 20);
        assert!(filter(&some, 1) && filter(&some, 2) && !filter(&some, 1) && !filter(&some, 2));
        (0..10_000).for_each(|block| {
            filter(&some, block);
        });
        assert!((1_000..=1 << 20).contains(&some.bytes.get()), "{}", some.bytes.get());
        let none = opened(0);
        assert!(filter(&none, 1) && filter(&none, 1));
    }
}
