//! Counts of what lines became.

use std::ops::AddAssign;

/// What happened to lines and records since the start, besides being shipped as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineTotals {
    /// Lines of logs of containers that are not in the format and were kept as they are.
    pub undecoded: u64,
    /// Records that `drop` or `keep` excluded.
    pub dropped: u64,
    /// Records that a sample excluded.
    pub sampled_out: u64,
    /// Records with a redacted text.
    pub redacted: u64,
}

impl AddAssign for LineTotals {
    fn add_assign(&mut self, more: Self) {
        self.undecoded += more.undecoded;
        self.dropped += more.dropped;
        self.sampled_out += more.sampled_out;
        self.redacted += more.redacted;
    }
}
