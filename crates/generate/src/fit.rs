//! Fits a line to an exact length.

use crate::append_text::AppendText;
use crate::padding;
use crate::rng::Rng;

/// Truncates or pads the text from `start` to the end of `out` to `size` bytes.
pub(crate) fn text(out: &mut Vec<u8>, start: usize, size: usize, rng: &mut Rng) {
    let end = start + size;
    if out.len() > end {
        // A character at the boundary is removed whole and replaced by dots.
        let mut keep = end;
        while out.get(keep).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000) {
            keep -= 1;
        }
        out.truncate(keep);
        out.resize(end, b'.');
    } else if out.len() < end {
        out.push(b' ');
        padding::append_fields(out, end, rng);
    }
}

/// Truncates or pads the JSON object from `start` to the end of `out` to `size` bytes. The result is valid JSON.
///
/// `cuts` are the offsets of the commas between its fields. Size 1 is too small for an object and gives a number.
pub(crate) fn json(out: &mut Vec<u8>, start: usize, size: usize, cuts: &[usize], rng: &mut Rng) {
    let end = start + size;
    if size < 2 {
        out.truncate(start);
        out.resize(end, b'0');
        return;
    }
    if out.len() == end {
        return;
    }
    // The kept part ends before a comma or the last brace, or is only the first brace.
    let whole = out.len() - 1;
    let last = if out.len() < end { Some(whole) } else { cuts.iter().rev().copied().find(|&cut| cut < end) };
    let keep = last.unwrap_or(start + 1);
    out.truncate(keep);
    // Replaces the message, the fourth field, if it was cut off.
    let has_message = cuts.get(3).is_some_and(|&cut| keep >= cut);
    let comma = if last.is_some() { "," } else { "" };
    let name = if has_message { r#""note":""# } else { r#""msg":""# };
    if keep + comma.len() + name.len() + 2 <= end {
        out.text(comma).text(name);
        padding::append_fields(out, end - 2, rng);
        out.push(b'"');
    } else {
        // Too small for another field. Space between tokens is insignificant.
        out.resize(end - 1, b' ');
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters() {
        let check = |line: &str, size, want: &str| {
            let mut out = format!("before{line}").into_bytes();
            text(&mut out, 6, size, &mut Rng::new(1));
            assert_eq!(str::from_utf8(&out).unwrap(), format!("before{want}"), "{line} to {size}");
        };
        check("plain", 5, "plain");
        check("plain", 2, "pl");
        check("plain", 0, "");
        check("a→b", 4, "a→");
        check("a→b", 3, "a..");
        check("a→b", 2, "a.");
        check("a→b", 1, "a");
        check("é", 1, ".");
        check("😀", 3, "...");
        check("a", 2, "a ");
    }

    #[test]
    fn short_text_is_padded_with_fields() {
        let mut out = b"level=info".to_vec();
        text(&mut out, 0, 200, &mut Rng::new(1));
        let line = String::from_utf8(out).unwrap();
        assert_eq!(line.len(), 200);
        assert!(line.starts_with("level=info ") && line.matches('=').count() > 8, "{line}");
    }

    #[test]
    fn json_keeps_the_fields_that_fit() {
        let check = |size, want: &str| {
            let line = r#"{"time":1,"level":2,"service":3,"msg":4,"z":5}"#;
            let cuts: Vec<usize> = line.match_indices(',').map(|(at, _)| at + 1).collect();
            let mut out = format!("\n{line}").into_bytes();
            json(&mut out, 1, size, &cuts, &mut Rng::new(1));
            let line = str::from_utf8(&out[1..]).unwrap();
            assert_eq!(line.len(), size, "{line}");
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let keys: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(keys.join(" "), want, "{line}");
        };
        // serde_json sorts the keys.
        check(2, "");
        check(8, "");
        check(9, "");
        check(10, "time");
        check(18, "time");
        check(19, "msg time");
        check(20, "level time");
        check(45, "level msg service time");
        check(46, "level msg service time z");
        check(47, "level msg service time z");
        check(56, "level msg note service time z");
        check(500, "level msg note service time z");
    }
}
