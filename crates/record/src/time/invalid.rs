//! Why a text is not a time.

#[cfg(doc)]
use crate::Millis;

/// Why a text is not a time, a duration or a time zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTime {
    /// Not a duration.
    #[error(
        "expected a duration such as `15m`, `1h30m`, `1.5h` or `7d` (units ns, us, ms, s, m, h, d, w), found `{0}`"
    )]
    Duration(String),
    /// A duration of more milliseconds than 64 bits hold.
    #[error("expected a duration of less than 500 million years, found `{0}`")]
    TooLong(String),
    /// Not a timestamp.
    #[error(
        "expected a time such as `15m` (that long ago), `now-1h`, `today`, `yesterday`, `10:30`, `2026-11-20`, \
         `2026-11-20 23:10`, `2026-11-20T23:10:00Z` or `1795216200` (Unix seconds), found `{0}`"
    )]
    Timestamp(String),
    /// A date that no calendar has, or a time of day that no clock shows.
    #[error("`{0}` does not exist: check the month, the day, the hour, the minute and the second")]
    Nonexistent(String),
    /// A timestamp before 1970 or after [`Millis::MAX`].
    #[error("expected a time from 1970 to the year 10889, found `{0}`")]
    OutOfRange(String),
    /// Not a time zone.
    #[error("expected a time zone such as `Europe/Berlin`, `UTC`, `+02:00` or `local`, found `{0}`")]
    Zone(String),
}
