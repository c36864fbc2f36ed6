//! Finds the event time of a JSON object without parsing it as a whole.

use memchr::{memchr, memchr3};

use crate::Millis;
use crate::time::{EVENT_TIME_KEYS, event_time_number, event_time_text};

/// Bytes in which a quote is looked for in words of eight bytes.
const SHORT_BYTES: usize = 16;

/// The value of the first of the [`EVENT_TIME_KEYS`] in the line that the object has at its top level with a valid time. The
/// line is not checked to be valid JSON; keys and times with escapes are not found. `time_of` reads the time at the start of a
/// text.
pub(super) fn event_time(
    line: &[u8],
    mut time_of: impl FnMut(&[u8]) -> Option<(Millis, u32)>,
) -> Option<(Millis, u32)> {
    let mut depth = 0_u32;
    let mut rest = line;
    loop {
        // Strings are skipped as a whole, so brackets in them do not count.
        let at = rest.iter().position(|byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']'))?;
        let (token, after) = rest.get(at..)?.split_first()?;
        rest = after;
        match token {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {
                let (text, after) = string(rest)?;
                rest = after;
                if depth == 1
                    && is_time_key(text)
                    && let Some(value) = after.trim_ascii_start().strip_prefix(b":")
                    && let Some(time) = value_time(value.trim_ascii_start(), &mut time_of)
                {
                    return Some(time);
                }
            }
        }
    }
}

fn is_time_key(text: &[u8]) -> bool {
    // The first letters decide for most keys.
    matches!(text.first(), Some(b't' | b'@')) && EVENT_TIME_KEYS.iter().any(|key| key.as_bytes() == text)
}

/// The string after its first quote, and what follows its last.
fn string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut end = quote(text)?;
    loop {
        let before = text.get(..end)?;
        let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes.is_multiple_of(2) {
            return Some((before, text.get(end + 1..)?));
        }
        end += 1 + memchr(b'"', text.get(end + 1..)?)?;
    }
}

/// The offset of the first quote. Most strings are shorter than what [`memchr`] is fast for.
fn quote(text: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let (words, _) = text.get(..SHORT_BYTES).unwrap_or_default().as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        // The lowest byte that is zero after this is the first quote.
        let differences = u64::from_le_bytes(*word) ^ (ONES * u64::from(b'"'));
        let zeros = differences.wrapping_sub(ONES) & !differences & (ONES << 7);
        if zeros != 0 {
            return Some(number * 8 + zeros.trailing_zeros() as usize / 8);
        }
    }
    memchr(b'"', text)
}

fn value_time(value: &[u8], time_of: impl FnOnce(&[u8]) -> Option<(Millis, u32)>) -> Option<(Millis, u32)> {
    if let Some(quoted) = value.strip_prefix(b"\"") {
        // No form goes on behind a quote.
        return time_of(quoted).or_else(|| {
            let (text, _) = string(quoted)?;
            event_time_text(text).or_else(|| event_time_number(str::from_utf8(text).ok()?.trim()))
        });
    }
    time_of(value).or_else(|| {
        let end = memchr3(b',', b'}', b' ', value).unwrap_or(value.len());
        event_time_number(str::from_utf8(value.get(..end)?).ok()?.trim())
    })
}
