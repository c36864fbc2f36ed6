//! Reads the time that a log line states near its start.
//!
//! A [`LineTimeReader`] tries each word of the first 128 bytes, from the left, and takes the first one that
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

mod civil_cache;
mod cursor;
mod forms;
mod json;
#[cfg(test)]
mod tests;

use jiff::tz::TimeZone;

use crate::Millis;
use civil_cache::CivilCache;
use cursor::TextCursor;
use forms::RecognisedTime;

/// Bytes at the start of a line in which a time may begin.
const SEARCHED_BYTES: usize = 128;

/// Reads the times of the lines of one source.
#[derive(Clone, Debug)]
pub struct LineTimeReader {
    civil: CivilCache,
    /// The time of the last line that states one.
    previous: Option<(Millis, u32)>,
}

impl LineTimeReader {
    /// A reader that reads times without a zone in `zone`.
    pub fn new(zone: TimeZone) -> Self {
        Self { civil: CivilCache::new(zone), previous: None }
    }

    /// The time of the next line: the one that it states, else that of the line before it; `None` if no line before it
    /// states one either. A continuation is the rest of a cut line, and states no time of its own.
    ///
    /// A time without a year is in the year in which it is nearest to `now`.
    pub fn next_time(&mut self, line: &[u8], is_continuation: bool, now: Millis) -> Option<(Millis, u32)> {
        if !is_continuation && let Some(time) = self.stated_time(line, now) {
            self.previous = Some(time);
        }
        self.previous
    }

    /// The time that a line states: milliseconds, and nanoseconds below.
    pub fn stated_time(&mut self, line: &[u8], now: Millis) -> Option<(Millis, u32)> {
        if line.first() == Some(&b'{')
            && let Some(time) = json::event_time(line)
        {
            return Some(time);
        }
        let head = line.get(..line.len().min(SEARCHED_BYTES))?;
        // A digit or a capital that follows neither a letter nor a digit may begin a time.
        let mut is_inside_word = false;
        let mut is_line_start = true;
        for (at, byte) in head.iter().enumerate() {
            let begins = !is_inside_word && (byte.is_ascii_digit() || byte.is_ascii_uppercase());
            if begins && let Some(time) = forms::read(TextCursor::at(line, at), is_line_start, at == 0) {
                let time = self.resolve(&time, now);
                if time.is_some() {
                    return time;
                }
            }
            is_line_start &= matches!(byte, b' ' | b'\t' | b'[' | b'-' | b'"' | b'(');
            is_inside_word = byte.is_ascii_alphanumeric();
        }
        None
    }

    fn resolve(&mut self, stated: &RecognisedTime, now: Millis) -> Option<(Millis, u32)> {
        match *stated {
            RecognisedTime::Epoch { nanos } => super::event::from_nanos(nanos).ok(),
            RecognisedTime::Civil(civil) => self.civil.resolve(&civil, now),
        }
    }
}
