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
const MIN_RESERVATION_DIVISOR: u64 = 128;

/// The memory that all queries share.
#[derive(Debug)]
pub(crate) struct ResultBudget {
    bytes_max: u64,
    /// Bytes that are held. Short sections only; no other lock is taken within.
    reserved_bytes: Mutex<u64>,
    gauge: Gauge,
}

impl ResultBudget {
    pub(crate) fn new(bytes_max: u64, gauge: Gauge) -> Arc<Self> {
        Arc::new(Self { bytes_max, reserved_bytes: Mutex::new(0), gauge })
    }

    /// The account of a query.
    pub(crate) fn account(self: &Arc<Self>) -> QueryAccount {
        QueryAccount(Arc::new(AccountState { budget: Arc::clone(self), reserved_bytes: AtomicU64::new(0) }))
    }

    /// What a search is given for a scan in any case.
    pub(crate) fn min_reservation_bytes(&self) -> u64 {
        self.bytes_max / MIN_RESERVATION_DIVISOR
    }

    #[cfg(test)]
    pub(crate) fn reserved_bytes(&self) -> u64 {
        *self.reserved_bytes.lock().unwrap()
    }
}

/// What one query holds. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct QueryAccount(Arc<AccountState>);

#[derive(Debug)]
struct AccountState {
    budget: Arc<ResultBudget>,
    /// Written only under the budget's lock.
    reserved_bytes: AtomicU64,
}

impl QueryAccount {
    /// So many bytes, when there is room for them.
    pub(crate) fn try_reserve(&self, bytes: u64) -> Option<ResultReservation> {
        let mut share = self.empty_reservation();
        share.try_grow(bytes).then_some(share)
    }

    /// So many bytes, also when there is no room.
    pub(crate) fn force_reserve(&self, bytes: u64) -> ResultReservation {
        let mut share = self.empty_reservation();
        share.resize(bytes);
        share
    }

    fn empty_reservation(&self) -> ResultReservation {
        ResultReservation { account: self.clone(), bytes: 0 }
    }

    /// Adds `more` and takes away `less`, when there is room or it is forced.
    fn adjust(&self, more: u64, less: u64, force: bool) -> bool {
        let AccountState { budget, reserved_bytes: held } = &*self.0;
        let mut total = budget.reserved_bytes.lock().unwrap_or_else(PoisonError::into_inner);
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
pub(crate) struct ResultReservation {
    account: QueryAccount,
    bytes: u64,
}

impl ResultReservation {
    /// Holds at least so many bytes; `false`, and what it held, when there is no room.
    pub(crate) fn try_grow(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let covered = more == 0 || self.account.adjust(more, 0, false);
        if covered {
            self.bytes = self.bytes.max(bytes);
        }
        covered
    }

    /// Holds exactly so many bytes, whether there is room or not.
    pub(crate) fn resize(&mut self, bytes: u64) {
        self.account.adjust(bytes.saturating_sub(self.bytes), self.bytes.saturating_sub(bytes), true);
        self.bytes = bytes;
    }

    /// Holds so many bytes less.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        drop(self.split(bytes));
    }

    /// Hands so many of its bytes over to a share of their own.
    pub(crate) fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { account: self.account.clone(), bytes }
    }
}

impl Drop for ResultReservation {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_may_reserve_as_much_as_it_leaves_free() {
        let budget = ResultBudget::new(120, Gauge::default());
        let (first, second, third) = (budget.account(), budget.account(), budget.account());
        assert!(first.try_reserve(61).is_none());
        let held = first.try_reserve(60).unwrap();
        assert!(first.try_reserve(1).is_none(), "60 and 60 are left");
        assert!(second.try_reserve(31).is_none());
        let other = second.try_reserve(30).unwrap();
        assert!(third.try_reserve(16).is_none());
        assert!(third.try_reserve(15).is_some());
        assert_eq!(budget.reserved_bytes(), 90, "what was taken and dropped is given back");
        drop((held, other));
        assert_eq!(budget.reserved_bytes(), 0);
    }

    #[test]
    fn forced_reservations_are_counted() {
        let budget = ResultBudget::new(100, Gauge::default());
        let account = budget.account();
        let mut forced = account.force_reserve(300);
        assert!(account.try_reserve(1).is_none() && budget.account().try_reserve(1).is_none());
        assert!(forced.try_grow(200) && !forced.try_grow(301));
        assert_eq!(budget.reserved_bytes(), 300);
        forced.resize(20);
        assert_eq!(budget.reserved_bytes(), 20);
        let part = forced.split(15);
        drop(forced);
        assert_eq!(budget.reserved_bytes(), 15);
        drop(part);
        assert_eq!(budget.reserved_bytes(), 0);
        assert!(account.try_reserve(50).is_some());
    }
}
