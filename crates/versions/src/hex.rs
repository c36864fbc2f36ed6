//! Bytes as text that people can read and compare.
//!
//! ```text
//!   000010: 01 02 ff 41  | ...A
//! ```

use std::fmt::Write as _;

const BYTES_PER_LINE: usize = 24;

pub(crate) fn write(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, bytes) in bytes.chunks(BYTES_PER_LINE).enumerate() {
        let shown = |byte: &u8| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' };
        let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let ascii: String = bytes.iter().map(shown).collect();
        // Writing to memory cannot fail.
        let _ = writeln!(text, "{:06x}: {}  | {}", line * BYTES_PER_LINE, digits.join(" "), ascii.trim_end());
    }
    text
}

/// The bytes again; `None` when that is something else.
pub(crate) fn read(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for line in text.lines() {
        let (_, rest) = line.split_once(": ")?;
        let (digits, _) = rest.split_once("  |")?;
        for pair in digits.split(' ') {
            bytes.push(u8::from_str_radix(pair, 16).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_round_trip(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(super::read(&super::write(&bytes)), Some(bytes));
        }
    }

    #[test]
    fn lines_are_readable() {
        assert_eq!(super::write(b"\x01| A \xff"), "000000: 01 7c 20 41 20 ff  | .| A .\n");
    }
}
