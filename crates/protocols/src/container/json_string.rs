//! The content of a JSON string, read in place if it has no escapes but a line end at its end.

use memchr::memchr2;

/// The content of a string.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StringContent<'a> {
    /// The content without the LF at its end; `None` if it was decoded into the buffer.
    pub(super) text: Option<&'a [u8]>,
    /// Whether there is an LF at its end.
    pub(super) has_line_end: bool,
    /// What follows the closing quote.
    pub(super) rest: &'a [u8],
}

/// Reads a string behind its opening quote. Its bytes are UTF-8 without control characters. `None` if it does not end, or has an
/// escape that is no character.
pub(super) fn read<'a>(json: &'a [u8], buffer: &mut Vec<u8>) -> Option<StringContent<'a>> {
    let first = memchr2(b'"', b'\\', json)?;
    let (text, behind) = json.split_at(first);
    match behind {
        [b'"', rest @ ..] => Some(StringContent { text: Some(text), has_line_end: false, rest }),
        [b'\\', b'n', b'"', rest @ ..] => Some(StringContent { text: Some(text), has_line_end: true, rest }),
        _ => decode(json, first, buffer),
    }
}

fn decode<'a>(json: &'a [u8], first: usize, buffer: &mut Vec<u8>) -> Option<StringContent<'a>> {
    buffer.clear();
    let (mut rest, mut next) = (json, first);
    loop {
        let (run, special) = rest.split_at_checked(next)?;
        buffer.extend_from_slice(run);
        rest = match special {
            [b'"', rest @ ..] => {
                let has_line_end = buffer.pop_if(|last| *last == b'\n').is_some();
                return Some(StringContent { text: None, has_line_end, rest });
            }
            [b'\\', b'u', rest @ ..] => unicode(rest, buffer)?,
            [b'\\', escape, rest @ ..] => {
                buffer.push(match escape {
                    b'"' | b'\\' | b'/' => *escape,
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'b' => 8,
                    b'f' => 12,
                    _ => return None,
                });
                rest
            }
            _ => return None,
        };
        next = memchr2(b'"', b'\\', rest)?;
    }
}

/// Appends the character behind `\u`; returns what follows it.
fn unicode<'a>(json: &'a [u8], buffer: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (unit, rest) = hexadecimal(json)?;
    let (code, rest) = match unit {
        0xd800..=0xdbff => {
            let (low, rest) = hexadecimal(rest.strip_prefix(b"\\u")?)?;
            let low = low.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
            (0x1_0000 + ((unit - 0xd800) << 10) + low, rest)
        }
        _ => (unit, rest),
    };
    let mut utf8 = [0; 4];
    buffer.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut utf8).as_bytes());
    Some(rest)
}

fn hexadecimal(json: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = json.split_first_chunk::<4>()?;
    let number = digits.iter().try_fold(0, |number, digit| Some(number << 4 | char::from(*digit).to_digit(16)?))?;
    Some((number, rest))
}
