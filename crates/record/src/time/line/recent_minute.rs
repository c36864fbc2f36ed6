//! The minute of the last time that a line stated, which the next line often states with the same bytes.

use super::cursor::TextCursor;
use super::forms::{self, CivilTime, ClockForm, Place};

/// Bytes before the seconds of the longest form, `Nov 24, 2026 22:40:`, with room for longer ones. They are compared as
/// numbers of eight bytes each.
const TEXT_BYTES_MAX: usize = 24;

/// The text of a time up to its seconds, and its minute.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecentMinute {
    text: Words,
    /// Has the bits of `text`, which is shorter than [`TEXT_BYTES_MAX`].
    mask: Words,
    text_len: usize,
    place: Place,
    clock: ClockForm,
    /// The year behind the time of day, where the form has it there.
    year_text: Option<[u8; 5]>,
    /// Its beginning in local seconds since 1970.
    local: i64,
}

/// Text as numbers.
type Words = [u64; TEXT_BYTES_MAX / 8];

fn words(text: &[u8; TEXT_BYTES_MAX]) -> Words {
    let (eights, _) = text.as_chunks::<8>();
    let mut words = Words::default();
    words.iter_mut().zip(eights).for_each(|(word, eight)| *word = u64::from_le_bytes(*eight));
    words
}

/// A time that is in the minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeInMinute {
    /// Local seconds since 1970.
    pub(super) local: i64,
    pub(super) nanos: u32,
    /// Seconds by which the stated time is ahead of UTC.
    pub(super) offset: Option<i32>,
}

impl RecentMinute {
    /// The minute of `time`, which was read at `at` in `line` and is at these local seconds since 1970. `None` for forms that are
    /// read as a whole.
    pub(super) fn new(line: &[u8], at: usize, time: &CivilTime, local: i64) -> Option<Self> {
        let seconds = time.seconds?;
        let text_of_line = line.get(at..line.len().checked_sub(seconds.left)?)?;
        let text_len = text_of_line.len();
        let (mut text, mut mask) = ([0; TEXT_BYTES_MAX], [0; TEXT_BYTES_MAX]);
        text.get_mut(..text_len)?.copy_from_slice(text_of_line);
        mask.get_mut(..text_len)?.fill(0xff);
        let (text, mask) = (words(&text), words(&mask));
        let local = local - i64::from(seconds.second);
        Some(Self {
            text,
            mask,
            text_len,
            place: time.place,
            clock: seconds.clock,
            year_text: seconds.year_text,
            local,
        })
    }

    /// The time that begins at `at`, if it is in this minute and in the same form; else it has to be read as a whole.
    pub(super) fn read(&self, line: &[u8], at: usize) -> Option<TimeInMinute> {
        let found = words(line.get(at..)?.first_chunk()?);
        let mut pairs = found.iter().zip(&self.mask).zip(&self.text);
        if !pairs.all(|((found, mask), text)| found & mask == *text) || !self.place.includes(line, at) {
            return None;
        }
        let mut cursor = TextCursor::at(line, at + self.text_len);
        let second = cursor.two().filter(|second| *second < 61)?;
        let nanos = forms::fraction(&mut cursor, self.clock);
        let mut rest = cursor;
        if rest.eat(b" ").is_some() {
            // A half of the day may follow.
            if rest.byte(1) == Some(b'M') {
                return None;
            }
            // A year may follow.
            if self.clock == ClockForm::BeforeYear && rest.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                let is_same = self.year_text.is_some_and(|year| cursor.starts_with(&year));
                cursor.skip(5);
                let is_end = cursor.is_word_end() && !matches!(cursor.peek(), Some(b'.' | b':' | b'/'));
                let time = TimeInMinute { local: self.local + i64::from(second), nanos, offset: None };
                return (is_same && is_end).then_some(time);
            }
        }
        if self.year_text.is_some() || cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let offset = forms::offset(&mut cursor);
        if self.clock == ClockForm::BeforeYear && offset.is_some() {
            return None;
        }
        Some(TimeInMinute { local: self.local + i64::from(second), nanos, offset })
    }
}
