//! Structured data of RFC 5424: `[id param="value" …][…]`, in which `\` escapes `"`, `\` and `]`.

use bucksaw_record::AttributeNames;

use crate::AttributeList;

/// The maximum number of parameters that become attributes of their own, so that the others of an event find room.
const PARAMS_MAX: usize = 200;

/// The attribute of structured data as a whole.
const WHOLE: &str = "syslog.structured_data";

/// The length of the structured data at the start of a text; `None` if the syntax is wrong.
pub(super) fn length(text: &[u8]) -> Option<usize> {
    if text.starts_with(b"-") {
        return Some(1);
    }
    let rest = visit(text, |_, _, _| ())?;
    Some(text.len() - rest.len()).filter(|length| *length > 0)
}

/// Adds each parameter as `id.param`, and each element without parameters as `id` with an empty value. Data with more than
/// 200 parameters, or with a name that is too long, is added as a whole as `syslog.structured_data`.
pub(super) fn push(data: &[u8], attributes: &mut AttributeList) {
    if data == b"-" {
        return;
    }
    let (mut count, mut bytes_max) = (0, 0);
    visit(data, |id, param, _| {
        count += 1;
        bytes_max = bytes_max.max(id.len() + param.len() + 1);
    });
    if count > PARAMS_MAX || bytes_max > AttributeNames::NAME_BYTES_MAX {
        return attributes.push(WHOLE, data);
    }
    visit(data, |id, param, value| {
        let dot = if param.is_empty() { "" } else { "." };
        attributes.push_parts(&[id, dot, param], |out| unescape(value, out));
    });
}

/// Calls `found` for each parameter with the id of its element, its name and its escaped value, and returns the text behind
/// the last element.
fn visit<'a>(mut text: &'a [u8], mut found: impl FnMut(&'a str, &'a str, &'a [u8])) -> Option<&'a [u8]> {
    while let Some(element) = text.strip_prefix(b"[") {
        let (id, mut rest) = take_name(element)?;
        let mut is_empty = true;
        while let Some(param) = rest.strip_prefix(b" ") {
            let param = param.trim_ascii_start();
            if param.starts_with(b"]") {
                rest = param;
                break;
            }
            let (name, value) = take_name(param)?;
            let value = value.strip_prefix(b"=\"")?;
            let length = value_length(value)?;
            found(id, name, value.get(..length)?);
            rest = value.get(length + 1..)?;
            is_empty = false;
        }
        if is_empty {
            found(id, "", b"");
        }
        text = rest.strip_prefix(b"]")?;
    }
    Some(text)
}

/// Takes a name: printable ASCII without space, `=`, `]` and `"`.
fn take_name(text: &[u8]) -> Option<(&str, &[u8])> {
    let is_name = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'=' | b']' | b'"');
    let length = text.iter().take_while(|byte| is_name(byte)).count();
    let (name, rest) = text.split_at(length);
    Some((str::from_utf8(name).ok()?, rest)).filter(|_| length > 0)
}

/// The length of a value up to its closing quote.
fn value_length(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text.get(at) == Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}

/// Appends a value without the backslashes that escape. A backslash before another character is a part of the value.
fn unescape(mut value: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = memchr::memchr(b'\\', value) {
        let (before, escape) = value.split_at(at);
        out.extend_from_slice(before);
        match escape {
            [_, escaped @ (b'"' | b'\\' | b']'), rest @ ..] => {
                out.push(*escaped);
                value = rest;
            }
            [backslash, rest @ ..] => {
                out.push(*backslash);
                value = rest;
            }
            [] => return,
        }
    }
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attributes(data: &[u8]) -> Vec<(String, Vec<u8>)> {
        let mut list = AttributeList::default();
        push(data, &mut list);
        list.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect()
    }

    #[test]
    fn parameters_become_attributes() {
        let check = |data: &str, want: &str| {
            assert_eq!(length(data.as_bytes()), Some(data.len()), "{data}");
            let got = attributes(data.as_bytes());
            let got = got.iter().map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)));
            assert_eq!(got.collect::<Vec<_>>().join(";"), want, "{data}");
        };
        check("-", "");
        check(r#"[a@1 b="c" d="e f"][g h=""]"#, "a@1.b=c;a@1.d=e f;g.h=");
        check(r#"[a b="\"\\\]\n"]"#, r#"a.b="\]\n"#);
        check(r#"[a b="x]y"]"#, "a.b=x]y");
        check("[a]", "a=");
        check(r#"[a  b="c" ]"#, "a.b=c");
        check(r#"[a b="1" b="2"]"#, "a.b=1;a.b=2");
        for bad in ["", "x", "[", "[]", "[a", "[a b]", "[a b=c]", r#"[a b="c]"#, r#"[a b="c\"]"#, r#"[a b="c"d="e"]"#] {
            assert_eq!(length(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(length(b"[a] [b]"), Some(3));
    }

    #[test]
    fn data_beyond_the_limits_is_one_attribute() {
        for data in [format!("[a {}]", vec!["b=\"c\""; 201].join(" ")), format!("[{} b=\"c\"]", "a".repeat(255))] {
            assert_eq!(length(data.as_bytes()), Some(data.len()));
            assert_eq!(attributes(data.as_bytes()), [(WHOLE.to_owned(), data.into_bytes())]);
        }
        assert_eq!(attributes(format!("[a {}]", vec!["b=\"c\""; 200].join(" ")).as_bytes()).len(), 200);
    }

    proptest! {
        #[test]
        fn any_value_survives_escaping(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..5)) {
            let mut data = b"[x@1".to_vec();
            for value in &values {
                data.extend_from_slice(b" p=\"");
                for byte in value {
                    if matches!(byte, b'"' | b'\\' | b']') {
                        data.push(b'\\');
                    }
                    data.push(*byte);
                }
                data.push(b'"');
            }
            data.push(b']');
            prop_assert_eq!(length(&data), Some(data.len()));
            let got: Vec<Vec<u8>> = attributes(&data).into_iter().map(|(_, value)| value).collect();
            prop_assert_eq!(got, values);
        }
    }
}
