//! What is predicted and measured of a load.

/// The figures of one load, predicted or measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct QueueingFigures {
    /// Mean number of sealed segments without a lease.
    pub(super) waiting: f64,
    /// Mean number of sealed segments that are not committed.
    pub(super) uncommitted: f64,
    /// Mean time in seconds from the acknowledgement of a record to the commit of its segment.
    pub(super) stored_mean: f64,
    /// The 99th percentile of this time.
    pub(super) stored_p99: f64,
    /// Rounds over all queues that found nothing, per gathered segment.
    pub(super) vain_rounds: f64,
    /// Share of the fetches that found nothing.
    pub(super) empty_share: f64,
    /// Bytes that stores fetched over bytes accepted.
    pub(super) consumed_ratio: f64,
}

impl QueueingFigures {
    /// The names of the figures, as in the table.
    pub(super) const NAMES: [&str; 7] =
        ["waiting", "uncommitted", "stored mean", "stored p99", "in vain", "empty fetches", "consumed"];

    /// The figures in the order of [`Self::NAMES`].
    pub(super) fn values(&self) -> [f64; 7] {
        let Self { waiting, uncommitted, stored_mean, stored_p99, vain_rounds, empty_share, consumed_ratio } = *self;
        [waiting, uncommitted, stored_mean, stored_p99, vain_rounds, empty_share, consumed_ratio]
    }
}
