//! Sizes in bytes.

use std::str::FromStr;

/// A number of bytes: `65536`, `64K`, `64KB`, `64KiB`; K, M, G and T in any case are powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) u64);

const SYNTAX: &str = "expected a size such as 65536, 64KB or 16MB (K, M, G and T are powers of 1024)";
const RANGE: &str = "expected a size below 16 million terabytes";

impl FromStr for ByteSize {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, unit) = text.split_at(digits);
        let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(SYNTAX),
        };
        if digits.is_empty() {
            return Err(SYNTAX);
        }
        let number: u64 = digits.parse().map_err(|_| RANGE)?;
        number.checked_mul(1 << shift).map(Self).ok_or(RANGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse() {
        let check = |text: &str, want: Result<u64, &str>| {
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
        check("16777216T", Err(RANGE));
        check("99999999999999999999", Err(RANGE));
        for text in ["", "MB", "-1", "+1", "1.5G", "1X", "1MBs", "1 000", "0x10", "1µ", "١"] {
            check(text, Err(SYNTAX));
        }
    }
}
