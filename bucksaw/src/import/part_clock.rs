//! The time of each part: the same in every import of the text.

use bucksaw_record::time::{LineTimeReader, TimeZone};
use bucksaw_record::{Flags, Millis};

/// Lines without a time have the time of the line before them, so a part has the time of the last line before it. Until
/// a line states a time, parts have the time of the first line that does; without any, the time of the file.
pub(super) struct PartClock {
    reader: Option<LineTimeReader>,
    /// The last change of the file.
    modified: Millis,
    /// The time of the last line before the next part.
    before: Option<Millis>,
}

impl PartClock {
    /// For lines whose times are read in `zone`, if at all.
    pub(super) fn new(zone: Option<TimeZone>, modified: Millis) -> Self {
        Self { reader: zone.map(LineTimeReader::new), modified, before: None }
    }

    /// The time of the next part.
    pub(super) fn time_of(&mut self, text: &[u8]) -> Millis {
        let Some(reader) = &mut self.reader else { return self.modified };
        // The node guesses years by the time of the part.
        let now = self.before.unwrap_or(self.modified);
        let mut times = Vec::new();
        reader.read(&[text], &Flags::empty(), now, &mut times);
        let mut stated = times.iter().flatten().map(|(at, _)| *at);
        // Times after the last change of the file come from a wrong clock; the node clamps them.
        let is_past = |at: &Millis| *at <= self.modified;
        let first = self.before.or_else(|| stated.find(is_past)).unwrap_or(self.modified);
        self.before = times.iter().rev().flatten().map(|(at, _)| *at).find(is_past).or(self.before);
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODIFIED: Millis = Millis(1_700_000_100_000);

    #[test]
    fn parts_have_the_time_of_the_line_before() {
        let mut clock = PartClock::new(Some(TimeZone::UTC), MODIFIED);
        assert_eq!(clock.time_of(b"\tat x\n"), MODIFIED);
        assert_eq!(clock.time_of(b"\tat x\n2023-11-14 22:13:20 y\n2023-11-14 22:13:21 z\n"), Millis(1_700_000_000_000));
        assert_eq!(clock.time_of(b"2023-11-14 22:13:22 y\n2099-01-01 00:00:00 z\n"), Millis(1_700_000_001_000));
        assert_eq!(clock.time_of(b"\tat x\n"), Millis(1_700_000_002_000));
        let mut clock = PartClock::new(None, MODIFIED);
        assert_eq!(clock.time_of(b"2023-11-14 22:13:20 y\n"), MODIFIED);
    }
}
