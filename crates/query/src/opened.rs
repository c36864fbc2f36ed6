//! Blocks that were opened, kept for the next query: people ask the same hours again and again.
//!
//! What was unpacked of a block stays with it, so that a block that was searched once is searched again without being
//! read, checked and unpacked. The memory of all is bounded; a scan over more than fits does not drive out what is asked
//! for often (the cache's policy is a variant of S3-FIFO: Yang et al., "FIFO queues are all you need for cache eviction",
//! SOSP 2023).

use std::sync::Arc;

use bucksaw_record::Id;
use bucksaw_segment::shelf::SearchForm;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use quick_cache::sync::Cache;

/// Blocks that are expected to be there at once, for the first size of the cache's tables.
const EXPECTED: usize = 1_024;

/// What is said of a block beside what it has: the key, and the cache's own.
const ENTRY_BYTES: u64 = 128;

/// A block of a segment. Segments never change, and no id is used twice.
type Key = (Id, usize);

#[derive(Clone)]
enum Kept {
    Filter(Arc<Vec<u8>>),
    /// With the bytes that it had when it was put here.
    Block(Arc<SearchForm>, u64),
}

#[derive(Clone)]
struct Weigh;

impl quick_cache::Weighter<(Key, bool), Kept> for Weigh {
    fn weight(&self, _: &(Key, bool), kept: &Kept) -> u64 {
        ENTRY_BYTES
            + match kept {
                Kept::Filter(bytes) => bytes.len() as u64,
                Kept::Block(_, bytes) => *bytes,
            }
    }
}

/// Opened blocks and their filters.
pub(crate) struct Opened {
    /// The key's second part is whether it is the filter.
    kept: Option<Cache<(Key, bool), Kept, Weigh>>,
    bytes: Gauge,
    found: Counter,
    missed: Counter,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("bytes", &self.bytes.get()).finish_non_exhaustive()
    }
}

impl Opened {
    /// Keeps up to `bytes_max` bytes; nothing when that is 0.
    pub(crate) fn new(bytes_max: u64, bytes: Gauge, found: Counter, missed: Counter) -> Self {
        let kept = (bytes_max > 0).then(|| Cache::with_weighter(EXPECTED, bytes_max, Weigh));
        Self { kept, bytes, found, missed }
    }

    /// The filter of a block, read with `read` when it is not here.
    pub(crate) fn filter<E>(&self, key: Key, read: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<Arc<Vec<u8>>, E> {
        if let Some(Kept::Filter(filter)) = self.kept.as_ref().and_then(|kept| kept.get(&(key, true))) {
            return Ok(filter);
        }
        let filter = Arc::new(read()?);
        self.put((key, true), Kept::Filter(Arc::clone(&filter)));
        Ok(filter)
    }

    /// A block, if it is here.
    pub(crate) fn form(&self, key: Key) -> Option<Arc<SearchForm>> {
        let form = match self.kept.as_ref()?.get(&(key, false)) {
            Some(Kept::Block(form, _)) => Some(form),
            _ => None,
        };
        if form.is_some() {
            self.found.inc()
        } else {
            self.missed.inc()
        };
        form
    }

    /// Puts a block here after it was searched. To do so again takes note of what was unpacked of it meanwhile.
    pub(crate) fn keep(&self, key: Key, form: &Arc<SearchForm>) {
        let bytes = form.memory() as u64;
        let noted = match self.kept.as_ref().and_then(|kept| kept.peek(&(key, false))) {
            Some(Kept::Block(_, noted)) => noted,
            _ => 0,
        };
        if bytes != noted {
            self.put((key, false), Kept::Block(Arc::clone(form), bytes));
        }
    }

    #[cfg(test)]
    pub(crate) fn found(&self) -> u64 {
        self.found.get()
    }

    fn put(&self, key: (Key, bool), kept: Kept) {
        if let Some(cache) = &self.kept {
            cache.insert(key, kept);
            self.bytes.set(i64::try_from(cache.weight()).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn opened(bytes_max: u64) -> Opened {
        Opened::new(bytes_max, Gauge::default(), Counter::default(), Counter::default())
    }

    #[test]
    fn what_was_read_is_kept_within_bounds() {
        let filter = |opened: &Opened, block: usize| {
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
