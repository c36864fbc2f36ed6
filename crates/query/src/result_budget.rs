//! The memory of answers: one budget that all queries of a node share.
//!
//! The budget counts matches that were not yet passed to the reader; a slow reader holds no other memory. It does not
//! count scans, which are bounded by [`ScanMemory`](crate::scan_memory::ScanMemory), and the few pooled buffers of
//! [`MatchBufferPools`](crate::match_buffer::MatchBufferPools).
//!
//! A query may reserve as much as it leaves free: one alone half of the budget, two a third each. This is the dynamic
//! threshold of switches that share a buffer among ports (Choudhury and Hahne, 1998). Memory returns as readers read;
//! [`Search::release_memory`](crate::search::Search::release_memory) takes it back from readers that stall.
//!
//! Invariant: reservations exceed the budget by at most the memory for a batch per query, which it
//! [forces](QueryAccount::force_reserve) because it cannot continue without.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bucksaw_env::lock;
use prometheus_client::metrics::gauge::Gauge;

/// A search may always reserve this part of the budget.
const MIN_RESERVATION_DIVISOR: u64 = 128;

/// The memory that all queries share.
#[derive(Debug)]
pub(crate) struct ResultBudget {
    bytes_max: u64,
    /// Short sections only; no other lock is taken inside.
    reserved_bytes: Mutex<u64>,
    gauge: Gauge,
}

impl ResultBudget {
    pub(crate) fn new(bytes_max: u64, gauge: Gauge) -> Arc<Self> {
        Arc::new(Self { bytes_max, reserved_bytes: Mutex::new(0), gauge })
    }

    /// The account of one query.
    pub(crate) fn account(self: &Arc<Self>) -> QueryAccount {
        QueryAccount { budget: Arc::clone(self), reserved_bytes: Arc::default() }
    }

    /// Bytes that a search gets for a scan in any case.
    pub(crate) fn min_reservation_bytes(&self) -> u64 {
        self.bytes_max / MIN_RESERVATION_DIVISOR
    }

    #[cfg(test)]
    pub(crate) fn reserved_bytes(&self) -> u64 {
        *self.reserved_bytes.lock().unwrap()
    }
}

/// The reservations of one query. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct QueryAccount {
    budget: Arc<ResultBudget>,
    /// Written only under the budget's lock.
    reserved_bytes: Arc<AtomicU64>,
}

impl QueryAccount {
    /// Reserves `bytes` if they are free.
    pub(crate) fn try_reserve(&self, bytes: u64) -> Option<ResultReservation> {
        let mut reservation = self.force_reserve(0);
        reservation.try_grow(bytes).then_some(reservation)
    }

    /// Reserves `bytes` even if they are not free.
    pub(crate) fn force_reserve(&self, bytes: u64) -> ResultReservation {
        let mut reservation = ResultReservation { account: self.clone(), bytes: 0 };
        reservation.resize(bytes);
        reservation
    }

    /// Replaces a reservation of `before` by one of `after` bytes, if these are free or `force` is set.
    fn replace(&self, before: u64, after: u64, force: bool) -> bool {
        let mut reserved = lock(&self.budget.reserved_bytes);
        let all = (*reserved + after).saturating_sub(before);
        let own = (self.reserved_bytes.load(Ordering::Relaxed) + after).saturating_sub(before);
        if !force && all.saturating_add(own) > self.budget.bytes_max {
            return false;
        }
        self.reserved_bytes.store(own, Ordering::Relaxed);
        *reserved = all;
        self.budget.gauge.set(i64::try_from(all).unwrap_or(i64::MAX));
        true
    }
}

/// Reserved memory, until it is dropped.
#[derive(Debug)]
pub(crate) struct ResultReservation {
    account: QueryAccount,
    bytes: u64,
}

impl ResultReservation {
    /// Grows to at least `bytes`; `false` without a change if they are not free.
    pub(crate) fn try_grow(&mut self, bytes: u64) -> bool {
        let is_reserved = bytes <= self.bytes || self.account.replace(self.bytes, bytes, false);
        if is_reserved {
            self.bytes = self.bytes.max(bytes);
        }
        is_reserved
    }

    /// Sets the reservation to `bytes`, free or not.
    pub(crate) fn resize(&mut self, bytes: u64) {
        self.account.replace(self.bytes, bytes, true);
        self.bytes = bytes;
    }

    /// Moves up to `bytes` to a reservation of their own.
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
        let sixty = first.try_reserve(60).unwrap();
        assert!(first.try_reserve(1).is_none(), "60 are reserved, 60 are free");
        assert!(second.try_reserve(31).is_none());
        let thirty = second.try_reserve(30).unwrap();
        assert!(third.try_reserve(16).is_none());
        assert!(third.try_reserve(15).is_some());
        assert_eq!(budget.reserved_bytes(), 90, "a dropped reservation is free");
        drop((sixty, thirty));
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
        let fifteen = forced.split(15);
        drop(forced);
        assert_eq!(budget.reserved_bytes(), 15);
        drop(fifteen);
        assert_eq!(budget.reserved_bytes(), 0);
        assert!(account.try_reserve(50).is_some());
    }
}
