//! File names of stored segments. They contain the time range of the records, so that it is known even if the file cannot
//! be read.
//!
//! `20261120T231000123Z-20261120T231013001Z-01KAJ3….seg`: lowest and highest time in UTC with milliseconds, then the id.

use bucksaw_record::{Id, Millis, time};

/// The file name of a segment.
pub(crate) fn file_name(low: Millis, high: Millis, id: Id, extension: &str) -> String {
    format!("{}-{}-{id}.{extension}", moment(low), moment(high))
}

/// The time range, the id and the extension in a name; `None` if the store has not made it.
pub(crate) fn parse(name: &str) -> Option<(Millis, Millis, Id, &str)> {
    let (stem, extension) = name.split_once('.')?;
    let mut parts = stem.split('-');
    let (low, high, id) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    Some((parse_moment(low)?, parse_moment(high)?, id.parse().ok()?, extension))
}

/// When a file was moved to the trash, and its former name; `None` if the store has not made the name.
pub(crate) fn parse_trashed(name: &str) -> Option<(Millis, &str)> {
    let (since, name) = name.split_once('-')?;
    parse(name)?;
    Some((Millis(since.parse().ok()?), name))
}

/// RFC 3339 down to the millisecond, without the punctuation.
fn moment(at: Millis) -> String {
    let text = time::format_rfc3339(at, 0);
    let text: String = text.chars().filter(|letter| !matches!(letter, '-' | ':' | '.' | 'Z')).collect();
    // The text has microseconds; the last three digits are zero.
    format!("{}Z", text.get(..text.len().saturating_sub(3)).unwrap_or_default())
}

fn parse_moment(text: &str) -> Option<Millis> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (year, rest) = date.split_at_checked(date.len().checked_sub(4)?)?;
    let (month, day) = rest.split_at_checked(2)?;
    let (hour, minute, second, ms) = (time.get(..2)?, time.get(2..4)?, time.get(4..6)?, time.get(6..9)?);
    let text = format!("{year}-{month}-{day}T{hour}:{minute}:{second}.{ms}Z");
    time::event_time_text(text.as_bytes()).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_contain_the_time_range() {
        let id = Id::from_bits(99);
        let name = file_name(Millis(1_763_680_200_123), Millis(1_763_680_213_001), id, "seg");
        assert_eq!(name, format!("20251120T231000123Z-20251120T231013001Z-{id}.seg"));
        assert_eq!(parse(&name), Some((Millis(1_763_680_200_123), Millis(1_763_680_213_001), id, "seg")));
        let far = file_name(Millis(0), Millis::MAX, id, "damaged");
        assert_eq!(parse(&far), Some((Millis(0), Millis::MAX, id, "damaged")));
        for foreign in ["", "x.seg", "notes.txt", "a-b-c.seg", "20251120T231000123Z-01.seg"] {
            assert_eq!(parse(foreign), None, "{foreign}");
        }
    }
}
