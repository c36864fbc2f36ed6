//! Base64 (RFC 4648, section 4), in which JSON carries lines that are not UTF-8.

/// The bytes that `text` stands for; `None` when it is not Base64. Padding may be left out, but nothing may follow it.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if text.len() - digits.len() > 2 || digits.len() % 4 == 1 {
        return None;
    }
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.as_bytes().chunks(4) {
        let bits = group.iter().try_fold(0_u32, |bits, digit| Some(bits << 6 | u32::from(value(*digit)?)))?;
        // Four digits are three bytes; three are two, two are one, each with bits that mean nothing behind them.
        let [_, bytes @ ..] = (bits << (6 * (4 - group.len()))).to_be_bytes();
        out.extend(bytes.iter().take(group.len() - 1));
    }
    Some(out)
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_decode() {
        let check = |text: &str, want: Option<&[u8]>| assert_eq!(decode(text).as_deref(), want, "{text}");
        check("", Some(b""));
        check("Zg==", Some(b"f"));
        check("Zm8=", Some(b"fo"));
        check("Zm9v", Some(b"foo"));
        check("Zm9vYg", Some(b"foob"));
        check("/+8A", Some(b"\xff\xef\0"));
        for text in ["Z", "Zg=a", "Z!==", "Zm9v====", "Zm9\n", "Zé=="] {
            check(text, None);
        }
    }
}
