//! The forms of times in lines.

use super::cursor::TextCursor;

/// A time as a line states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecognisedTime {
    /// Nanoseconds since 1970.
    Epoch { nanos: i128 },
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
}

/// A year, month and day.
type Date = (Option<u32>, u32, u32);

/// Abbreviations of zones: those of RFC 2822, and European ones, which mean one offset each.
const ABBREVIATIONS: [(&[u8], i32); 18] = [
    (b"UTC", 0),
    (b"GMT", 0),
    (b"CET", 1),
    (b"CEST", 2),
    (b"WET", 0),
    (b"WEST", 1),
    (b"EET", 2),
    (b"EEST", 3),
    (b"MSK", 3),
    (b"JST", 9),
    (b"EST", -5),
    (b"EDT", -4),
    (b"CST", -6),
    (b"CDT", -5),
    (b"MST", -7),
    (b"MDT", -6),
    (b"PST", -8),
    (b"PDT", -7),
];

/// The time that begins at the cursor. Numbers since 1970 and six-digit dates count at the start of a line only, because
/// other numbers look the same.
pub(super) fn read(cursor: TextCursor<'_>, is_line_start: bool, is_first_byte: bool) -> Option<RecognisedTime> {
    let first = cursor.peek()?;
    if !first.is_ascii_digit() {
        return month_first(cursor).or_else(|| glog(cursor).filter(|_| is_first_byte)).map(RecognisedTime::Civil);
    }
    let civil = match cursor.digit_count() {
        4 => year_first(cursor),
        1 | 2 => day_first(cursor).or_else(|| short_date(cursor)),
        8 => basic_iso(cursor),
        6 if is_line_start => six_digit_date(cursor),
        digits @ (10 | 13 | 16 | 19) if is_line_start => return epoch(cursor, digits),
        _ => None,
    };
    civil.map(RecognisedTime::Civil)
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
    // C prints the year after the time of day.
    if rest.eat(b" ").is_some() && rest.digit_count() == 4 {
        let year = rest.four().filter(|year| (1970..2100).contains(year) && (rest.is_word_end()));
        time.year = year.filter(|_| !matches!(rest.peek(), Some(b'.' | b':' | b'/')));
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
    let number = i128::from(cursor.number(digits)?);
    let mut nanos = match digits {
        10 => number * 1_000_000_000,
        13 => number * 1_000_000,
        16 => number * 1_000,
        _ => number,
    };
    if digits == 10 && cursor.peek() == Some(b'.') && cursor.byte(1).is_some_and(|byte| byte.is_ascii_digit()) {
        cursor.skip(1);
        nanos += i128::from(cursor.fraction()?);
    }
    (cursor.is_word_end() && nanos < 4_102_444_800_000_000_000).then_some(RecognisedTime::Epoch { nanos })
}

/// A time of day and what follows it: a fraction, a zone.
fn clock(cursor: TextCursor<'_>, date: Date) -> Option<CivilTime> {
    clock_and_rest(cursor, date).map(|(time, _)| time)
}

fn clock_and_rest(mut cursor: TextCursor<'_>, date: Date) -> Option<(CivilTime, TextCursor<'_>)> {
    let mut hour = cursor.one_or_two()?;
    let separator = cursor.eat(b":.")?;
    let minute = cursor.one_or_two()?;
    let mut second = 0;
    let mut nanos = 0;
    if cursor.eat(&[separator]).is_some() {
        second = cursor.one_or_two()?;
        // Some print milliseconds after a colon.
        if matches!(cursor.peek(), Some(b'.' | b',' | b':')) && cursor.byte(1).is_some_and(|byte| byte.is_ascii_digit())
        {
            cursor.skip(1);
            nanos = cursor.fraction()?;
        }
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
    }
    if cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let offset = offset(&mut cursor);
    let time = civil(date, (hour, minute, second), nanos, offset)?;
    Some((time, cursor))
}

/// `224004`, and a fraction and a zone.
fn compact_clock(mut cursor: TextCursor<'_>, date: Date) -> Option<CivilTime> {
    let clock = (cursor.two()?, cursor.two()?, cursor.two()?);
    let mut nanos = 0;
    if matches!(cursor.peek(), Some(b'.' | b',')) && cursor.byte(1).is_some_and(|byte| byte.is_ascii_digit()) {
        cursor.skip(1);
        nanos = cursor.fraction()?;
    }
    let offset = offset(&mut cursor);
    civil(date, clock, nanos, offset)
}

fn civil(
    (year, month, day): Date,
    (hour, minute, second): (u32, u32, u32),
    nanos: u32,
    offset: Option<i32>,
) -> Option<CivilTime> {
    let exists = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    exists.then_some(CivilTime { year, month, day, second: hour * 3_600 + minute * 60 + second, nanos, offset })
}

/// Takes a zone: `Z`, `+01:00`, ` +0100`, `+01`, or an abbreviation.
fn offset(cursor: &mut TextCursor<'_>) -> Option<i32> {
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
            let (name, hours) = ABBREVIATIONS.iter().find(|(name, _)| {
                let mut end = at;
                end.skip(name.len());
                (0..).zip(*name).all(|(index, byte)| at.byte(index) == Some(*byte)) && end.is_word_end()
            })?;
            at.skip(name.len());
            *cursor = at;
            Some(hours * 3_600)
        }
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
