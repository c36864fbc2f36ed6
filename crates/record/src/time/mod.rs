//! Times as people and programs write them, and as they are printed: durations, moments, event times in records.
//!
//! There is no time zone database and no clock: times are UTC or state their offset, and the caller says what is now.
//! Reading and printing are written by hand, because both happen once per record; the tests hold them to `jiff`.
//!
//! What it does not do: where in a record its time stands is the sources' matter, and whether to believe it is
//! [`Millis::not_ahead_of`](crate::Millis::not_ahead_of)'s.
//!
//! ```
//! use bucksaw_record::{Millis, time};
//! let now = Millis(1_795_216_200_000);
//! assert_eq!(time::parse_moment("15m", now), time::parse_moment("2026-11-20T22:55:00Z", now));
//! assert_eq!(time::format_rfc3339(now, 456_789), "2026-11-20T23:10:00.000456Z");
//! assert_eq!(time::event_time_number("1795216200.25"), Some((Millis(1_795_216_200_250), 0)));
//! ```

mod civil;
mod event;
mod format;
mod parse;
#[cfg(test)]
mod tests;

pub use event::{event_time_number, event_time_text};
pub use format::{format_rfc3339, write_rfc3339};
pub use parse::{InvalidTime, parse_duration, parse_timestamp};
