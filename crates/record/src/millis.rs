//! Milliseconds since 1970, and what a node does with times that cannot be.

use std::fmt;

/// A moment, in milliseconds since 1970-01-01 UTC. At most 48 bits are used: the year 10889.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// The last moment that an id can hold.
    pub const MAX: Self = Self((1 << 48) - 1);

    /// How far ahead of the node's clock a source's time may be: one hour.
    pub const AHEAD_MS_MAX: u64 = 3_600_000;

    /// This moment, or `arrival` when this is more than [`Self::AHEAD_MAX`] later than it. The second value tells
    /// whether it was replaced, for the caller to count.
    ///
    /// ```
    /// # use bucksaw_record::Millis;
    /// let now = Millis(10_000_000);
    /// assert_eq!(Millis(10_000_500).not_ahead_of(now), (Millis(10_000_500), false));
    /// assert_eq!(Millis(90_000_000).not_ahead_of(now), (now, true));
    /// ```
    #[must_use]
    pub fn clamp_future(self, arrival: Self) -> (Self, bool) {
        if self.0 > arrival.0.saturating_add(Self::AHEAD_MS_MAX) { (arrival, true) } else { (self, false) }
    }

    /// The moment `ms` later, at most [`Self::MAX`].
    #[must_use]
    pub fn saturating_add(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms).min(Self::MAX.0))
    }

    /// The moment `ms` earlier, at least 1970.
    #[must_use]
    pub fn saturating_sub(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
