//! Finds the event time of a JSON object without parsing it as a whole.

use memchr::{memchr, memchr3};

use crate::Millis;
use crate::time::{EVENT_TIME_KEYS, event_time_number, event_time_text};

/// The value of the first of the [`EVENT_TIME_KEYS`] that the object has at its top level as a valid time. The line is not
/// checked to be valid JSON; keys and times with escapes are not found.
pub(super) fn event_time(line: &[u8]) -> Option<(Millis, u32)> {
    let mut found = [None; EVENT_TIME_KEYS.len()];
    let mut depth = 0_u32;
    let mut rest = line;
    loop {
        // Strings are skipped as a whole, so brackets in them do not count.
        let at = rest.iter().position(|byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']'));
        let Some((token, after)) = at.and_then(|at| rest.get(at..)?.split_first()) else { break };
        rest = after;
        match token {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {
                let Some((text, after)) = string(rest) else { break };
                rest = after;
                let place = EVENT_TIME_KEYS.iter().position(|key| key.as_bytes() == text);
                if depth == 1
                    && let Some(place) = place
                    && let Some(value) = after.trim_ascii_start().strip_prefix(b":")
                {
                    let time = value_time(value.trim_ascii_start());
                    // No key has precedence over the first.
                    if place == 0 && time.is_some() {
                        return time;
                    }
                    if let Some(found) = found.get_mut(place) {
                        *found = time;
                    }
                }
            }
        }
    }
    found.into_iter().flatten().next()
}

/// The string after its first quote, and what follows its last.
fn string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut end = memchr(b'"', text)?;
    loop {
        let before = text.get(..end)?;
        let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes.is_multiple_of(2) {
            return Some((before, text.get(end + 1..)?));
        }
        end += 1 + memchr(b'"', text.get(end + 1..)?)?;
    }
}

fn value_time(value: &[u8]) -> Option<(Millis, u32)> {
    if let Some(quoted) = value.strip_prefix(b"\"") {
        let (text, _) = string(quoted)?;
        return event_time_text(text).or_else(|| event_time_number(str::from_utf8(text).ok()?.trim()));
    }
    let end = memchr3(b',', b'}', b' ', value).unwrap_or(value.len());
    event_time_number(str::from_utf8(value.get(..end)?).ok()?.trim())
}
