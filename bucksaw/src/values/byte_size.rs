//! Sizes as people type them.

use std::str::FromStr;

/// A number of bytes: `65536`, `64K`, `64KB`, `64KiB`; K, M, G and T in any case, always powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) u64);

/// Why a text is not a size.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidSize {
    /// It is not written as one.
    #[error("expected a size such as 65536, 64KB or 16MB (K, M, G and T are powers of 1024)")]
    Form,
    /// It does not fit into 64 bits.
    #[error("expected a size below 16 million terabytes")]
    Range,
}

impl FromStr for ByteSize {
    type Err = InvalidSize;

    fn from_str(text: &str) -> Result<Self, InvalidSize> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, unit) = text.split_at(digits);
        let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(InvalidSize::Form),
        };
        if digits.is_empty() {
            return Err(InvalidSize::Form);
        }
        let number: u64 = digits.parse().map_err(|_| InvalidSize::Range)?;
        number.checked_mul(1 << shift).map(Self).ok_or(InvalidSize::Range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse() {
        let check = |text: &str, want: Result<u64, InvalidSize>| {
            assert_eq!(text.parse::<ByteSize>().map(|size| size.0), want, "{text}");
        };
        check("0", Ok(0));
        check("65536", Ok(65_536));
        check("16MB", Ok(16 << 20));
        check("128MiB", Ok(128 << 20));
        check("1g", Ok(1 << 30));
        check("2 TB", Ok(2 << 40));
        check("9k", Ok(9 << 10));
        check("7b", Ok(7));
        check("16777215T", Ok(16_777_215 << 40));
        check("16777216T", Err(InvalidSize::Range));
        check("99999999999999999999", Err(InvalidSize::Range));
        for text in ["", "MB", "-1", "+1", "1.5G", "1X", "1MBs", "1 000", "0x10", "1µ", "١"] {
            check(text, Err(InvalidSize::Form));
        }
    }
}
