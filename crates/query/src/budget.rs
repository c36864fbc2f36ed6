//! The memory of answers: one budget that all queries of a node share.
//!
//! What is counted is what was found and has not been handed over for good: it is all that a slow reader can make a node
//! keep. What a scan needs while it runs (a block unpacked, a window of a file) is not: the pool's threads bound it. Nor is
//! what is kept of answers that were read, for the next ones: [`Pieces`](crate::hits::Pieces) are few.
//!
//! A query may hold as much as it leaves to the others: one alone half of the budget, two a third each once the first has
//! read on. That is the dynamic threshold of switches that share a buffer among their ports (Choudhury and Hahne, 1998).
//! It makes room only as readers read; of those that stall, [`Search::let_go`](crate::Search::let_go) takes it back.
//!
//! Invariant: what is held is at most the budget, and for each query the little that it was given [by
//! force](Account::force), without which it could not go on at all: what a batch of records needs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::gauge::Gauge;

/// A search may always hold this part of the budget, so that it goes on however much the others hold.
const PART: u64 = 128;

/// The memory that all queries share.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes_max: u64,
    /// Bytes that are held. Short sections only; no other lock is taken within.
    held: Mutex<u64>,
    gauge: Gauge,
}

impl Budget {
    pub(crate) fn new(bytes_max: u64, gauge: Gauge) -> Arc<Self> {
        Arc::new(Self { bytes_max, held: Mutex::new(0), gauge })
    }

    /// The account of a query.
    pub(crate) fn account(self: &Arc<Self>) -> Account {
        Account(Arc::new(Holder { budget: Arc::clone(self), held: AtomicU64::new(0) }))
    }

    /// What a search is given for a scan in any case.
    pub(crate) fn part_bytes(&self) -> u64 {
        self.bytes_max / PART
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> u64 {
        *self.held.lock().unwrap()
    }
}

/// What one query holds. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Account(Arc<Holder>);

#[derive(Debug)]
struct Holder {
    budget: Arc<Budget>,
    /// Written only under the budget's lock.
    held: AtomicU64,
}

impl Account {
    /// So many bytes, when there is room for them.
    pub(crate) fn take(&self, bytes: u64) -> Option<Share> {
        let mut share = self.nothing();
        share.cover(bytes).then_some(share)
    }

    /// So many bytes, also when there is no room.
    pub(crate) fn force(&self, bytes: u64) -> Share {
        let mut share = self.nothing();
        share.set(bytes);
        share
    }

    fn nothing(&self) -> Share {
        Share { account: self.clone(), bytes: 0 }
    }

    /// Adds `more` and takes away `less`, when there is room or it is forced.
    fn change(&self, more: u64, less: u64, force: bool) -> bool {
        let Holder { budget, held } = &*self.0;
        let mut total = budget.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = ((*total + more).saturating_sub(less), held.load(Ordering::Relaxed) + more);
        if !force && all.saturating_add(own) > budget.bytes_max {
            return false;
        }
        held.store(own.saturating_sub(less), Ordering::Relaxed);
        *total = all;
        budget.gauge.set(i64::try_from(all).unwrap_or(i64::MAX));
        true
    }
}

/// Memory that is held, until this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    account: Account,
    bytes: u64,
}

impl Share {
    /// Holds at least so many bytes; `false`, and what it held, when there is no room.
    pub(crate) fn cover(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let covered = more == 0 || self.account.change(more, 0, false);
        if covered {
            self.bytes = self.bytes.max(bytes);
        }
        covered
    }

    /// Holds exactly so many bytes, whether there is room or not.
    pub(crate) fn set(&mut self, bytes: u64) {
        self.account.change(bytes.saturating_sub(self.bytes), self.bytes.saturating_sub(bytes), true);
        self.bytes = bytes;
    }

    /// Holds so many bytes less.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        drop(self.split(bytes));
    }

    /// Hands so many of its bytes over to a share of their own.
    pub(crate) fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { account: self.account.clone(), bytes }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_may_hold_what_is_left_for_the_others() {
        let budget = Budget::new(120, Gauge::default());
        let (first, second, third) = (budget.account(), budget.account(), budget.account());
        assert!(first.take(61).is_none());
        let held = first.take(60).unwrap();
        assert!(first.take(1).is_none(), "60 and 60 are left");
        assert!(second.take(31).is_none());
        let other = second.take(30).unwrap();
        assert!(third.take(16).is_none());
        assert!(third.take(15).is_some());
        assert_eq!(budget.held(), 90, "what was taken and dropped is given back");
        drop((held, other));
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn what_is_forced_is_counted() {
        let budget = Budget::new(100, Gauge::default());
        let account = budget.account();
        let mut forced = account.force(300);
        assert!(account.take(1).is_none() && budget.account().take(1).is_none());
        assert!(forced.cover(200) && !forced.cover(301));
        assert_eq!(budget.held(), 300);
        forced.set(20);
        assert_eq!(budget.held(), 20);
        let part = forced.split(15);
        drop(forced);
        assert_eq!(budget.held(), 15);
        drop(part);
        assert_eq!(budget.held(), 0);
        assert!(account.take(50).is_some());
    }
}
