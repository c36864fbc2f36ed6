//! The forms of times in lines.

use super::cursor::TextCursor;

/// A time as a line states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecognisedTime {
    /// Nanoseconds since 1970.
    Epoch { nanos: u64 },
    /// A date and a time of day.
    Civil(CivilTime),
}

/// A date and a time of day, in a zone that the line may leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CivilTime {
    /// `None` if the form has no year.
    pub(super) year: Option<u32>,
    pub(super) month: u32,
    pub(super) day: u32,
    /// Seconds since midnight; a leap second is the first second of the next minute.
    pub(super) second: u32,
    pub(super) nanos: u32,
    /// Seconds by which the stated time is ahead of UTC.
    pub(super) offset: Option<i32>,
    pub(super) place: Place,
    /// Where the seconds are, if what is before them determines the minute.
    pub(super) seconds: Option<Seconds>,
}

/// Where in a line a form is a time. Elsewhere other numbers look the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Anywhere,
    LineStart,
    FirstByte,
}

/// How the seconds of a form go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClockForm {
    /// `04.123`, `04,123` or `04:123`.
    Plain,
    /// `04.123` or `04,123`, in a time without colons.
    Compact,
    /// As plain, and a year may follow.
    BeforeYear,
}

/// Where the seconds of a time are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seconds {
    /// Bytes of the line from the seconds on.
    pub(super) left: usize,
    /// The seconds of the time of day; 60 is a leap second.
    pub(super) second: u32,
    pub(super) clock: ClockForm,
    /// The year behind the time of day, with a space before it.
    pub(super) year_text: Option<[u8; 5]>,
}

impl Place {
    /// Whether an offset in a line is in this place.
    pub(super) fn includes(self, line: &[u8], at: usize) -> bool {
        let is_before_words = |byte: &u8| matches!(byte, b' ' | b'\t' | b'[' | b'-' | b'"' | b'(');
        match self {
            Self::Anywhere => true,
            Self::LineStart => line.get(..at).is_some_and(|before| before.iter().all(is_before_words)),
            Self::FirstByte => at == 0,
        }
    }
}

/// The year 2100, in nanoseconds since 1970: larger numbers are no times.
const EPOCH_NANOS_MAX: u64 = 4_102_444_800_000_000_000;

/// A year, month and day.
type Date = (Option<u32>, u32, u32);

/// The time that begins at an offset in a line.
pub(super) fn read(line: &[u8], at: usize) -> Option<RecognisedTime> {
    let cursor = TextCursor::at(line, at);
    let first = cursor.peek()?;
    let (place, civil) = if first.is_ascii_digit() {
        match cursor.digit_count() {
            4 => (Place::Anywhere, year_first(cursor)),
            1 | 2 => (Place::Anywhere, day_first(cursor).or_else(|| short_date(cursor))),
            8 => (Place::Anywhere, basic_iso(cursor)),
            6 => (Place::LineStart, six_digit_date(cursor)),
            digits @ (10 | 13 | 16 | 19) => {
                return epoch(cursor, digits).filter(|_| Place::LineStart.includes(line, at));
            }
            _ => return None,
        }
    } else if at == 0 && cursor.byte(1).is_some_and(|byte| byte.is_ascii_digit()) {
        (Place::FirstByte, glog(cursor))
    } else {
        (Place::Anywhere, month_first(cursor))
    };
    let civil = civil.filter(|_| place.includes(line, at))?;
    Some(RecognisedTime::Civil(CivilTime { place, ..civil }))
}

/// `2026-11-24T22:40:04.123Z` and `2026/11/24 22:40:04`; also with dots, as in `2026-11-24-22.40.04.123`.
fn year_first(mut cursor: TextCursor<'_>) -> Option<CivilTime> {
    let year = cursor.four()?;
    let separator = cursor.eat(b"-/.")?;
    let month = cursor.two()?;
    cursor.eat(&[separator])?;
    let day = cursor.two()?;
    cursor.eat(b"Tt -:_")?;
    clock(cursor, (Some(year), month, day))
}

/// `24/Nov/2026:22:40:04 +0000`, `24-Nov-2026 22:40:04`, `24 Nov 2026 22:40:04`.
fn day_first(mut cursor: TextCursor<'_>) -> Option<CivilTime> {
    let day = cursor.one_or_two()?;
    let separator = cursor.eat(b"/- ")?;
    let month = month(&mut cursor)?;
    cursor.eat(&[separator])?;
    let year = cursor.four()?;
    cursor.eat(b": ")?;
    clock(cursor, (Some(year), month, day))
}

/// `11-24 22:40:04.123` without a year, and `26/11/24 22:40:04`.
fn short_date(mut cursor: TextCursor<'_>) -> Option<CivilTime> {
    let first = cursor.two()?;
    if cursor.eat(b"/").is_some() {
        let month = cursor.two()?;
        cursor.eat(b"/")?;
        let day = cursor.two()?;
        cursor.eat(b" ")?;
        return clock(cursor, (Some(short_year(first)), month, day));
    }
    cursor.eat(b"-")?;
    let day = cursor.two()?;
    cursor.eat(b" ")?;
    clock(cursor, (None, first, day))
}

/// `20261124T224004Z` and `20261124-22:40:04:123`.
fn basic_iso(mut cursor: TextCursor<'_>) -> Option<CivilTime> {
    let date = (Some(cursor.four()?), cursor.two()?, cursor.two()?);
    cursor.eat(b"T- ")?;
    if cursor.digit_count() == 6 { compact_clock(cursor, date) } else { clock(cursor, date) }
}

/// `261124 224004` and `261124 22:40:04`.
fn six_digit_date(mut cursor: TextCursor<'_>) -> Option<CivilTime> {
    let date = (Some(short_year(cursor.two()?)), cursor.two()?, cursor.two()?);
    cursor.eat(b" ")?;
    cursor.eat(b" ");
    if cursor.digit_count() == 6 { compact_clock(cursor, date) } else { clock(cursor, date) }
}

/// `Nov 24 22:40:04`, `Nov 24 22:40:04.123 2026`, `Nov 24 22:40:04 UTC 2026`, `Nov 24 2026 22:40:04`, `Nov 24, 2026 9:40:04 PM`.
fn month_first(mut cursor: TextCursor<'_>) -> Option<CivilTime> {
    let month = month(&mut cursor)?;
    cursor.eat(b" ")?;
    cursor.eat(b" ");
    let day = cursor.one_or_two()?;
    cursor.eat(b",");
    cursor.eat(b" ")?;
    if cursor.digit_count() == 4 {
        let year = cursor.four()?;
        cursor.eat(b",");
        cursor.eat(b" ")?;
        return clock(cursor, (Some(year), month, day));
    }
    let (mut time, mut rest) = clock_and_rest(cursor, (None, month, day))?;
    if let Some(seconds) = &mut time.seconds {
        seconds.clock = ClockForm::BeforeYear;
    }
    // C prints the year after the time of day.
    let year_text = rest.first_bytes::<5>();
    if rest.eat(b" ").is_some() && rest.digit_count() == 4 {
        let year = rest.four().filter(|year| (1970..2100).contains(year) && rest.is_word_end());
        time.year = year.filter(|_| !matches!(rest.peek(), Some(b'.' | b':' | b'/')));
        if let Some(seconds) = &mut time.seconds {
            seconds.year_text = year_text.filter(|_| time.year.is_some());
        }
    }
    Some(time)
}

/// `I1124 22:40:04.123456`: a letter for the level, and no year.
fn glog(mut cursor: TextCursor<'_>) -> Option<CivilTime> {
    cursor.eat(b"IWEFD")?;
    let (month, day) = (cursor.two()?, cursor.two()?);
    cursor.eat(b" ")?;
    clock(cursor, (None, month, day))
}

/// A number of seconds, milliseconds, microseconds or nanoseconds by its digits, since 2001 and before 2100.
fn epoch(mut cursor: TextCursor<'_>, digits: usize) -> Option<RecognisedTime> {
    let number = cursor.number(digits)?;
    let unit = match digits {
        10 => 1_000_000_000,
        13 => 1_000_000,
        16 => 1_000,
        _ => 1,
    };
    let mut nanos = number.checked_mul(unit)?;
    if digits == 10 && cursor.peek() == Some(b'.') && cursor.byte(1).is_some_and(|byte| byte.is_ascii_digit()) {
        cursor.skip(1);
        nanos += u64::from(cursor.fraction()?);
    }
    (cursor.is_word_end() && nanos < EPOCH_NANOS_MAX).then_some(RecognisedTime::Epoch { nanos })
}

/// A time of day and what follows it: a fraction, a zone.
fn clock(cursor: TextCursor<'_>, date: Date) -> Option<CivilTime> {
    clock_and_rest(cursor, date).map(|(time, _)| time)
}

fn clock_and_rest(mut cursor: TextCursor<'_>, date: Date) -> Option<(CivilTime, TextCursor<'_>)> {
    let mut hour = cursor.one_or_two()?;
    let separator = cursor.eat(b":.")?;
    let minute = cursor.one_or_two()?;
    let (mut second, mut nanos, mut seconds) = (0, 0, None);
    if cursor.eat(&[separator]).is_some() {
        let left = cursor.bytes_left();
        second = cursor.one_or_two()?;
        seconds = Some(Seconds { left, second, clock: ClockForm::Plain, year_text: None });
        nanos = fraction(&mut cursor, ClockForm::Plain);
    } else if separator == b'.' {
        // `2026.11` and the like are numbers.
        return None;
    }
    let mut half = cursor;
    if half.eat(b" ").is_some()
        && let Some([half_of_day @ (b'A' | b'P'), b'M']) = half.take::<2>()
        && half.is_word_end()
        && (1..=12).contains(&hour)
    {
        hour = hour % 12 + if half_of_day == b'P' { 12 } else { 0 };
        cursor = half;
        seconds = None;
    }
    if cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let offset = offset(&mut cursor);
    let time = civil(date, (hour, minute, second), nanos, offset)?;
    Some((CivilTime { seconds, ..time }, cursor))
}

/// `224004`, and a fraction and a zone.
fn compact_clock(mut cursor: TextCursor<'_>, date: Date) -> Option<CivilTime> {
    let (hour, minute) = (cursor.two()?, cursor.two()?);
    let left = cursor.bytes_left();
    let second = cursor.two()?;
    let seconds = Some(Seconds { left, second, clock: ClockForm::Compact, year_text: None });
    let nanos = fraction(&mut cursor, ClockForm::Compact);
    let offset = offset(&mut cursor);
    civil(date, (hour, minute, second), nanos, offset).map(|time| CivilTime { seconds, ..time })
}

/// Takes a fraction of the seconds, as nanoseconds; 0 without one. Some print milliseconds after a colon.
pub(super) fn fraction(cursor: &mut TextCursor<'_>, clock: ClockForm) -> u32 {
    let is_mark = match cursor.peek() {
        Some(b'.' | b',') => true,
        Some(b':') => clock != ClockForm::Compact,
        _ => false,
    };
    if !is_mark || !cursor.byte(1).is_some_and(|byte| byte.is_ascii_digit()) {
        return 0;
    }
    cursor.skip(1);
    cursor.fraction().unwrap_or_default()
}

fn civil(
    (year, month, day): Date,
    (hour, minute, second): (u32, u32, u32),
    nanos: u32,
    offset: Option<i32>,
) -> Option<CivilTime> {
    let exists = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    let second = hour * 3_600 + minute * 60 + second;
    exists.then_some(CivilTime { year, month, day, second, nanos, offset, place: Place::Anywhere, seconds: None })
}

/// Takes a zone: `Z`, `+01:00`, ` +0100`, `+01`, or an abbreviation.
pub(super) fn offset(cursor: &mut TextCursor<'_>) -> Option<i32> {
    let mut at = *cursor;
    let is_apart = at.eat(b" ").is_some();
    match at.peek()? {
        b'Z' | b'z' => {
            at.skip(1);
            if !at.is_word_end() {
                return None;
            }
            *cursor = at;
            Some(0)
        }
        sign @ (b'+' | b'-') => {
            at.skip(1);
            let hours = at.two().filter(|hours| *hours < 24)?;
            let mut short = at;
            at.eat(b":");
            let minutes = at.two().filter(|minutes| *minutes < 60);
            let minutes = match minutes {
                Some(minutes) if at.is_word_end() => minutes,
                // Apart from the time, two digits are a number of something else.
                _ if !is_apart && short.is_word_end() && short.eat(b":.-").is_none() => {
                    at = short;
                    0
                }
                _ => return None,
            };
            *cursor = at;
            let seconds = (hours * 3_600 + minutes * 60).cast_signed();
            Some(if sign == b'-' { -seconds } else { seconds })
        }
        b'A'..=b'Z' => {
            let hours = abbreviation(&mut at).filter(|_| at.is_word_end())?;
            *cursor = at;
            Some(hours * 3_600)
        }
        _ => None,
    }
}

/// Takes the abbreviation of a zone: those of RFC 2822, and European ones, which mean one offset each. Hours ahead of UTC.
fn abbreviation(cursor: &mut TextCursor<'_>) -> Option<i32> {
    let long = match cursor.first_bytes::<4>().as_ref() {
        Some(b"CEST") => Some(2),
        Some(b"WEST") => Some(1),
        Some(b"EEST") => Some(3),
        _ => None,
    };
    if long.is_some() {
        cursor.skip(4);
        return long;
    }
    match &cursor.take::<3>()? {
        b"UTC" | b"GMT" | b"WET" => Some(0),
        b"CET" => Some(1),
        b"EET" => Some(2),
        b"MSK" => Some(3),
        b"JST" => Some(9),
        b"EST" => Some(-5),
        b"EDT" => Some(-4),
        b"CST" => Some(-6),
        b"CDT" => Some(-5),
        b"MST" => Some(-7),
        b"MDT" => Some(-6),
        b"PST" => Some(-8),
        b"PDT" => Some(-7),
        _ => None,
    }
}

fn month(cursor: &mut TextCursor<'_>) -> Option<u32> {
    let mut at = *cursor;
    let month = match &at.take::<3>()? {
        b"Jan" => 1,
        b"Feb" => 2,
        b"Mar" => 3,
        b"Apr" => 4,
        b"May" => 5,
        b"Jun" => 6,
        b"Jul" => 7,
        b"Aug" => 8,
        b"Sep" => 9,
        b"Oct" => 10,
        b"Nov" => 11,
        b"Dec" => 12,
        _ => return None,
    };
    *cursor = at;
    Some(month)
}

/// The year of two digits, from 1970 to 2069.
fn short_year(year: u32) -> u32 {
    if year < 70 { 2000 + year } else { 1900 + year }
}
