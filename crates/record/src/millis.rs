//! Milliseconds since 1970, and the rule for times ahead of the clock.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A time in milliseconds since 1970-01-01 UTC. Ids hold 48 bits of it, up to the year 10889. Serialised as a number;
/// deserialisation replaces a later time by [`Self::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "u64")]
pub struct Millis(pub u64);

impl Millis {
    /// The latest time that an id can hold.
    pub const MAX: Self = Self((1 << 48) - 1);

    /// The maximum by which an event time may be ahead of the node's clock: one hour.
    pub const AHEAD_MS_MAX: u64 = 3_600_000;

    /// Replaces a time more than [`Self::AHEAD_MS_MAX`] after `arrival` by `arrival`. The second value is true if it was
    /// replaced.
    ///
    /// ```
    /// # use bucksaw_record::Millis;
    /// let now = Millis(10_000_000);
    /// assert_eq!(Millis(10_000_500).clamp_future(now), (Millis(10_000_500), false));
    /// assert_eq!(Millis(90_000_000).clamp_future(now), (now, true));
    /// ```
    pub fn clamp_future(self, arrival: Self) -> (Self, bool) {
        if self.0 > arrival.0.saturating_add(Self::AHEAD_MS_MAX) { (arrival, true) } else { (self, false) }
    }

    /// The time `ms` later, at most [`Self::MAX`].
    #[must_use]
    pub fn saturating_add(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms).min(Self::MAX.0))
    }

    /// The time `ms` earlier, at least 1970.
    #[must_use]
    pub fn saturating_sub(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }
}

impl From<u64> for Millis {
    fn from(ms: u64) -> Self {
        Self(ms.min(Self::MAX.0))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
