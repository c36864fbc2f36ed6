//! Reads the time that a log line states near its start.
//!
//! A [`LineTimeReader`] tries each word of the first 121 bytes, from the left, and takes the first one that
//! begins a time in a known form. In a line that is a JSON object the keys of event times come first. The result depends on
//! the line, the zone and the year of `now` alone, so reading a batch again gives the same times.
//!
//! | form | example |
//! | --- | --- |
//! | RFC 3339 and its variants | `2026-11-24T22:40:04.123Z`, `2026-11-24 22:40:04,123 +0100`, `2026/11/24 22:40:04` |
//! | basic ISO 8601 | `20261124T224004Z`, `20261124-22:40:04:123` |
//! | syslog, C | `Nov 24 22:40:04`, `Tue Nov 24 22:40:04.123 2026`, `Nov 24 2026 22:40:04` |
//! | access logs | `24/Nov/2026:22:40:04 +0000`, `24-Nov-2026 22:40:04.123`, `24 Nov 2026 22:40:04` |
//! | glog | `I1124 22:40:04.123456` |
//! | short dates | `11-24 22:40:04.123`, `26/11/24 22:40:04`, `261124 224004` |
//! | since 1970, at the start of a line | `1795560004`, `[1795560004.123]`, `1795560004123` |

mod candidates;
mod civil_cache;
mod cursor;
mod forms;
mod json;
mod recent_minute;
#[cfg(test)]
mod tests;

use jiff::tz::TimeZone;
use memchr::memchr_iter;

use crate::{Flags, Millis};
use candidates::{Candidates, WINDOW_PLACES};
use civil_cache::CivilCache;
use forms::RecognisedTime;
use recent_minute::RecentMinute;

/// Bytes at the start of a line in which a time may begin: the first one, and those that two windows examine.
const SEARCHED_BYTES: usize = 1 + 2 * WINDOW_PLACES;

/// Reads the times of the lines of one source, in their order.
///
/// ```
/// # use bucksaw_record::{Flags, Millis, time::{LineTimeReader, TimeZone}};
/// let mut reader = LineTimeReader::new(TimeZone::UTC);
/// let mut times = Vec::new();
/// let text = b"2023-11-14 22:13:20,5 it fails\n\tat line 7\n";
/// reader.read(&[text], &Flags::empty(), Millis(1_700_000_009_000), &mut times);
/// assert_eq!(times, [Some((Millis(1_700_000_000_500), 0)); 2]);
/// ```
#[derive(Clone, Debug)]
pub struct LineTimeReader {
    civil: CivilCache,
    /// The time of the last line that states one.
    previous: Option<(Millis, u32)>,
    /// The last line was cut, so the next one is its rest.
    is_continuation: bool,
    /// The minute of the last time, and the time by which years were guessed.
    minute: Option<RecentMinute>,
    now: Millis,
}

impl LineTimeReader {
    /// A reader that reads times without a zone in `zone`.
    pub fn new(zone: TimeZone) -> Self {
        Self { civil: CivilCache::new(zone), previous: None, is_continuation: false, minute: None, now: Millis(0) }
    }

    /// Appends the time of each line to `times`: its stated time, else the time of the line before it, else `None`. The
    /// rest of a cut line states no time of its own.
    ///
    /// `parts` are whole lines with an LF behind each, divided anywhere; `flags` are those of the lines. A time without a
    /// year is in the year in which it is nearest to `now`.
    pub fn read(&mut self, parts: &[&[u8]], flags: &Flags, now: Millis, times: &mut Vec<Option<(Millis, u32)>>) {
        if now != self.now {
            // The year may be another one.
            (self.minute, self.now) = (None, now);
        }
        let first = times.len();
        let mut add = |line: &[u8]| {
            let is_rest = self.is_continuation;
            let row = u32::try_from(times.len() - first).unwrap_or(u32::MAX);
            self.is_continuation = !flags.is_empty() && flags.get(row) & Flags::CUT != 0;
            if !is_rest && let Some(time) = self.stated_time(line, now) {
                self.previous = Some(time);
            }
            times.push(self.previous);
        };
        // The beginning of a line that continues in the next part.
        let mut begun = Vec::new();
        for part in parts {
            let mut at = 0;
            for end in memchr_iter(b'\n', part) {
                let line = part.get(at..end).unwrap_or_default();
                at = end + 1;
                if begun.is_empty() {
                    add(line);
                } else {
                    begun.extend_from_slice(line);
                    add(&begun);
                    begun.clear();
                }
            }
            begun.extend_from_slice(part.get(at..).unwrap_or_default());
        }
    }

    /// The time that a line states: milliseconds, and nanoseconds below.
    fn stated_time(&mut self, line: &[u8], now: Millis) -> Option<(Millis, u32)> {
        let first = line.first()?;
        if *first == b'{'
            && let Some(time) = json::event_time(line, |value| self.time_at(value, 0, now))
        {
            return Some(time);
        }
        // Most times are at the start of the line; a word there is rarely a month, or the level of glog, and a number with a dot
        // is an address.
        let is_address = || line.get(1..4).is_some_and(|next| next.contains(&b'.'));
        let begins = first.is_ascii_digit() && !is_address()
            || first.is_ascii_uppercase()
                && (line.get(3) == Some(&b' ') || line.get(1).is_some_and(u8::is_ascii_digit));
        if begins && let Some(time) = self.time_at(line, 0, now) {
            return Some(time);
        }
        Candidates::new(line, SEARCHED_BYTES).find_map(|at| self.time_at(line, at, now))
    }

    /// The time that begins at an offset of a line.
    fn time_at(&mut self, line: &[u8], at: usize, now: Millis) -> Option<(Millis, u32)> {
        if let Some(time) = self.minute.as_ref().and_then(|minute| minute.read(line, at)) {
            return self.civil.at_local(time.local, time.nanos, time.offset);
        }
        match forms::read(line, at)? {
            RecognisedTime::Epoch { nanos } => Some((Millis(nanos / 1_000_000), (nanos % 1_000_000) as u32)),
            RecognisedTime::Civil(civil) => {
                let (time, local) = self.civil.resolve(&civil, now)?;
                self.minute = local.and_then(|local| RecentMinute::new(line, at, &civil, local));
                Some(time)
            }
        }
    }
}
