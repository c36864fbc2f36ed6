//! Whether damage can be detected from the damaged file alone.
//!
//! | file | detectable |
//! | --- | --- |
//! | `node`, `members` and `clock`, each with its backup, stored segments, those in the trash, pending queue segments
//! | always |
//! | `queue/*.keys` | except a truncation, which a crash also leaves |
//! | `addresses.json`, `queue/boot` | if the syntax is invalid: they have no checksum, because a wrong digit loses no
//! record |
//! | `queue/*.active` | except what a crash may leave; losses are checked separately |
//! | `queue/*.committed` | not all of it: stores have the records |

use std::collections::BTreeMap;

/// Files of idempotency keys.
pub(super) const KEYS: &str = "queue/*.keys";

/// Bytes of a key file before the first whose damage matters.
const KEYS_HEADER: usize = 8;

/// Whether `verify` must name a file of this kind with these bytes.
pub(crate) fn is_visible(kind: &str, is_cut: bool, bytes: &[u8]) -> bool {
    match kind {
        "node.json" | "node.backup" | "members.json" | "members.backup" => true,
        "store/clock.json" | "store/clock.backup" | "store/*.seg" | "store/trash/*.seg" | "queue/*.pending" => true,
        KEYS => !is_cut && bytes.len() > KEYS_HEADER,
        "addresses.json" => serde_json::from_slice::<BTreeMap<String, String>>(bytes).is_err(),
        "queue/boot" => !is_boot(bytes),
        _ => false,
    }
}

/// Whether a key file differs from the original only in its header.
pub(crate) fn is_header_alone(bytes: &[u8], before: &[u8]) -> bool {
    bytes.get(KEYS_HEADER..) == before.get(KEYS_HEADER..)
}

/// Whether the bytes are hexadecimal digits and a line end, or a prefix of that.
fn is_boot(bytes: &[u8]) -> bool {
    let (digits, end) = bytes.split_at(bytes.len().min(32));
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    digits.iter().all(is_digit) && (end.is_empty() || end == b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_visible_where_the_format_shows_it() {
        let check =
            |kind: &str, is_cut, bytes: &[u8], want| assert_eq!(is_visible(kind, is_cut, bytes), want, "{kind}");
        check("node.json", true, b"", true);
        check("queue/*.active", false, b"x", false);
        check(KEYS, true, &[7; 48], false);
        check(KEYS, false, &[7; 48], true);
        check("addresses.json", false, b"{\"http\":\"h:2\"}", false);
        check("addresses.json", false, b"{\"http\":2}", true);
        check("queue/boot", false, b"0123", false);
        check("queue/boot", false, b"012\x003", true);
        assert!(is_header_alone(b"BSWKEYS2x", b"BSWKEYS1x") && !is_header_alone(b"BSWKEYS1y", b"BSWKEYS1x"));
    }
}
