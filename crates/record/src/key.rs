//! The time in an idempotency key that is a UUID of version 7 or a ULID.
//!
//! All nodes derive the same ids from such a key without remembering it. Other keys carry no time.

use crate::{Id, Millis};

/// Offsets of the hyphens in a UUID.
const HYPHEN_OFFSETS: [usize; 4] = [8, 13, 18, 23];
const UUID_LEN: usize = 36;

/// The time in a key; `None` if it is neither a UUID of version 7 nor a ULID. The key may be in double quotes, as strings
/// in structured headers are. The time is not checked for plausibility.
///
/// ```
/// # use bucksaw_record::{Millis, key_time};
/// assert_eq!(key_time(b"017f22e2-79b0-7cc3-98c4-dc0c0c07398f"), Some(Millis(1_645_557_742_000)));
/// assert_eq!(key_time(b"01ARYZ6S410000000000000000"), Some(Millis(1_469_918_176_385)));
/// assert_eq!(key_time(b"batch 17"), None);
/// ```
pub fn key_time(key: &[u8]) -> Option<Millis> {
    let quoted = key.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let text = str::from_utf8(quoted.unwrap_or(key)).ok()?;
    uuid_time(text).or_else(|| text.parse::<Id>().ok().map(Id::time))
}

/// The first 48 bits of a UUID of version 7, <https://www.rfc-editor.org/rfc/rfc9562#section-5.7>.
fn uuid_time(text: &str) -> Option<Millis> {
    let is_valid = |(at, byte): (usize, u8)| match at {
        at if HYPHEN_OFFSETS.contains(&at) => byte == b'-',
        14 => byte == b'7',
        19 => matches!(byte.to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b'),
        _ => byte.is_ascii_hexdigit(),
    };
    if text.len() != UUID_LEN || !(0..).zip(text.bytes()).all(is_valid) {
        return None;
    }
    let (high, low) = (text.get(..8)?, text.get(9..13)?);
    u64::from_str_radix(&[high, low].concat(), 16).ok().map(Millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_uuids_of_version_7_and_ulids_have_a_time() {
        let check = |key: &str, want: Option<u64>| assert_eq!(key_time(key.as_bytes()), want.map(Millis), "{key}");
        // The examples of the RFC and of the ULID specification.
        check("017F22E2-79B0-7CC3-98C4-DC0C0C07398F", Some(1_645_557_742_000));
        check("\"017f22e2-79b0-7cc3-98c4-dc0c0c07398f\"", Some(1_645_557_742_000));
        check("01ARZ3NDEKTSV4RRFFQ69G5FAV", Some(1_469_922_850_259));
        check("01arz3ndektsv4rrffq69g5fav", Some(1_469_922_850_259));
        check("\"01ARZ3NDEKTSV4RRFFQ69G5FAV\"", Some(1_469_922_850_259));
        check("7ZZZZZZZZZZZZZZZZZZZZZZZZZ", Some(Millis::MAX.0));
        check("ffffffff-ffff-7fff-bfff-ffffffffffff", Some(Millis::MAX.0));
        for other in [
            "",
            "\"",
            "\"\"",
            "batch 17",
            // Another version, another variant, no hyphens, too short, too long, not ASCII, and malformed.
            "017f22e2-79b0-4cc3-98c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-c8c4-dc0c0c07398f",
            "017f22e279b07cc398c4dc0c0c07398f",
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398",
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398f0",
            "017f22e2-79b0-7cc3-98c4-dc0c0c0739é",
            "+17f22e2-79b0-7cc3-98c4-dc0c0c07398f",
            "017f22e2079b007cc3098c40dc0c0c07398f",
            "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "01ARZ3NDEKTSV4RRFFQ69G5FA",
            "\"01ARZ3NDEKTSV4RRFFQ69G5FAV",
        ] {
            check(other, None);
        }
        assert_eq!(key_time(b"\xff"), None);
    }
}
