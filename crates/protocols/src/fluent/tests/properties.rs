//! Random messages: attributes as a naive oracle makes them, and any parts of any bytes.

use bucksaw_record::Labels;
use proptest::prelude::*;
use rmpv::Value;

use super::{decode, frames, hex, pack};

/// A value with at most some levels of arrays and maps.
fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-200_i64..200).prop_map(Value::from),
        any::<f32>().prop_map(Value::F32),
        any::<f64>().prop_map(Value::F64),
        "[a-c\"\\\\\n\u{e4}]{0,5}".prop_map(Value::from),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Binary),
        (1_i8..5, prop::collection::vec(any::<u8>(), 0..20)).prop_map(|(kind, bytes)| Value::Ext(kind, bytes)),
    ];
    scalar.prop_recursive(5, 30, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..20).prop_map(Value::Array),
            prop::collection::vec((any_key(), inner), 0..5).prop_map(Value::Map),
        ]
    })
}

fn any_key() -> impl Strategy<Value = Value> {
    prop_oneof![
        9 => "[a-c.]{1,3}".prop_map(Value::from),
        1 => (-9_i64..9).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::from("host")),
        1 => Just(Value::from("msg")),
        1 => Just(Value::from("log")),
    ]
}

fn any_record() -> impl Strategy<Value = Vec<(Value, Value)>> {
    prop::collection::vec((any_key(), any_value()), 0..8)
}

/// Appends a value with heads that are as long as possible, which no library writes.
fn pack_wide(value: &Value, out: &mut Vec<u8>) {
    let mut head = |marker: u8, length: usize| {
        out.push(marker);
        out.extend_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
    };
    match value {
        Value::Array(items) => {
            head(0xdd, items.len());
            items.iter().for_each(|item| pack_wide(item, out));
        }
        Value::Map(pairs) => {
            head(0xdf, pairs.len());
            pairs.iter().for_each(|(key, value)| {
                pack_wide(key, out);
                pack_wide(value, out);
            });
        }
        Value::String(text) => {
            head(0xdb, text.as_bytes().len());
            out.extend_from_slice(text.as_bytes());
        }
        Value::Binary(bytes) => {
            head(0xc6, bytes.len());
            out.extend_from_slice(bytes);
        }
        Value::Ext(kind, bytes) => {
            head(0xc9, bytes.len());
            out.push(*kind as u8);
            out.extend_from_slice(bytes);
        }
        Value::Integer(number) => {
            let (marker, bytes) = match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => (0xd3, number.to_be_bytes()),
                (None, number) => (0xcf, number.unwrap().to_be_bytes()),
            };
            out.push(marker);
            out.extend_from_slice(&bytes);
        }
        other => out.extend_from_slice(&pack(other)),
    }
}

/// The JSON text of a value, by the formatting of other libraries.
fn json(value: &Value) -> String {
    let quoted = |text: &str| serde_json::to_string(text).unwrap();
    let base64 = |bytes: &[u8]| quoted(&base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes));
    let list = |items: Vec<String>| items.join(",");
    let name = |number: f64| match number {
        number if number.is_nan() => "\"NaN\"",
        number if number > 0.0 => "\"Infinity\"",
        _ => "\"-Infinity\"",
    };
    match value {
        Value::Nil => "null".to_owned(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::F32(number) if number.is_finite() => serde_json::to_string(number).unwrap(),
        Value::F32(number) => name(f64::from(*number)).to_owned(),
        Value::F64(number) if number.is_finite() => serde_json::to_string(number).unwrap(),
        Value::F64(number) => name(*number).to_owned(),
        Value::String(text) => quoted(text.as_str().unwrap()),
        Value::Binary(bytes) => str::from_utf8(bytes).map_or_else(|_| base64(bytes), quoted),
        Value::Array(items) => format!("[{}]", list(items.iter().map(json).collect())),
        Value::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| format!("{}:{}", quoted(&text(key)), json(value))).collect();
            format!("{{{}}}", list(pairs))
        }
        Value::Ext(_, bytes) => base64(bytes),
    }
}

/// The text of a value as an attribute.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.as_str().unwrap().to_owned(),
        Value::Binary(bytes) | Value::Ext(_, bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => json(other).trim_matches('"').to_owned(),
    }
}

/// Adds the attributes of a pair.
fn flatten(name: String, value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Nil => {}
        Value::Map(pairs) if !pairs.is_empty() => {
            pairs.iter().for_each(|(key, value)| flatten(format!("{name}.{}", text(key)), value, out));
        }
        other => out.push(format!("{name}={}", text(other))),
    }
}

fn is_string(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Binary(_))
}

/// The event of a record with the tag `t` at the time of arrival.
fn oracle(record: &[(Value, Value)]) -> String {
    let key = |name: &str| {
        record.iter().position(|(key, value)| matches!(key, Value::String(_)) && text(key) == name && is_string(value))
    };
    let line = key("log").or_else(|| key("msg"));
    let host = key("host").filter(|at| {
        let value = &record[*at].1;
        let bytes = value.as_slice().unwrap();
        str::from_utf8(bytes).is_ok() && !bytes.is_empty()
    });
    let mut attributes = Vec::new();
    for (at, (key, value)) in record.iter().enumerate() {
        if line.is_some_and(|line| line != at) && host != Some(at) {
            flatten(text(key), value, &mut attributes);
        }
    }
    let host = host.map(|at| ("host.name".to_owned(), text(&record[at].1)));
    let labels = Labels::new(host.into_iter().chain([("tag".to_owned(), "t".to_owned())])).unwrap();
    let line = match line {
        Some(at) => text(&record[at].1),
        None => json(&Value::Map(record.to_vec())),
    };
    let line = line.strip_suffix('\n').unwrap_or(&line);
    format!("{labels}|-|{line}|{}", attributes.join(";"))
}

/// Records of which most have the keys of the first, with any values.
fn similar_records() -> impl Strategy<Value = Vec<Vec<(Value, Value)>>> {
    let key = || prop::sample::select(vec!["log", "msg", "host", "a", "b"]).prop_map(Value::from);
    let value = || {
        prop_oneof![
            6 => "[a-z/\n]{0,4}".prop_map(Value::from),
            2 => (-200_i64..200).prop_map(Value::from),
            1 => Just(Value::Nil),
            1 => prop::collection::vec((key(), "[a-z]".prop_map(Value::from)), 0..3).prop_map(Value::Map),
            1 => any_value(),
        ]
    };
    let first = prop::collection::vec((key(), value()), 0..6);
    let change = || prop_oneof![2 => value().prop_map(Ok), 5 => "[a-z]{0,40}".prop_map(Err)];
    let others = prop::collection::vec((prop::collection::vec(change(), 6), 0..20_usize, any_key()), 0..6);
    (first, others).prop_map(|(first, others)| {
        let mut records = vec![first.clone()];
        for (changes, changed, key) in others {
            let changed_pair = |((key, value), change): (&(Value, Value), Result<Value, String>)| {
                (key.clone(), change.unwrap_or_else(|text| with_text(value, &text)))
            };
            let mut record: Vec<_> = first.iter().zip(changes).map(changed_pair).collect();
            // One key differs, or all are equal.
            if let Some((changed, _)) = record.get_mut(changed) {
                *changed = key;
            }
            records.push(record);
        }
        records
    })
}

/// A value with another text in place of each of its strings, keys aside.
fn with_text(value: &Value, text: &str) -> Value {
    match value {
        Value::String(_) => Value::from(text),
        Value::Map(pairs) => {
            Value::Map(pairs.iter().map(|(key, value)| (key.clone(), with_text(value, text))).collect())
        }
        other => other.clone(),
    }
}

/// An entry in one of the forms of its head, without a time and metadata.
fn entry(record: Vec<(Value, Value)>, form: u8) -> Value {
    let none = Value::Ext(0, vec![0; 8]);
    let head = match form {
        0 => Value::Array(vec![none, Value::Map(Vec::new())]),
        1 => Value::from(0),
        _ => none,
    };
    Value::Array(vec![head, Value::Map(record)])
}

/// Parts of a stream, cut at these places.
fn parts<'a>(stream: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect()
}

/// Messages of all modes.
fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let record = any_record().prop_map(Value::Map);
    let entries = prop::collection::vec(record.prop_map(|record| Value::Array(vec![Value::from(5), record])), 1..4);
    let options = prop_oneof![
        Just(None),
        Just(Some(Value::Nil)),
        Just(Some(Value::Map(vec![(Value::from("chunk"), Value::from("c")), (Value::from("size"), Value::from(2))]))),
    ];
    (entries, options, 0..3, any::<bool>()).prop_map(|(entries, options, mode, is_wide)| {
        let mut message = vec![Value::from("t")];
        match mode {
            0 => message.extend(entries[0].as_array().unwrap().clone()),
            1 => message.push(Value::Array(entries)),
            _ => message.push(Value::Binary(entries.iter().flat_map(pack).collect())),
        }
        message.extend(options);
        let mut out = Vec::new();
        if is_wide {
            pack_wide(&Value::Array(message), &mut out);
        } else {
            out = pack(&Value::Array(message));
        }
        out
    })
}

fn is_same(
    left: &(Vec<Vec<u8>>, Option<super::FluentError>),
    right: &(Vec<Vec<u8>>, Option<super::FluentError>),
) -> bool {
    left.0 == right.0 && left.1.is_some() == right.1.is_some()
}

proptest! {
    #[test]
    fn attributes_equal_the_oracle(record in any_record(), is_wide in any::<bool>()) {
        let message = Value::Array(vec![Value::from("t"), Value::Nil, Value::Map(record.clone())]);
        let mut bytes = Vec::new();
        if is_wide {
            pack_wide(&message, &mut bytes);
        } else {
            bytes = pack(&message);
        }
        prop_assert_eq!(decode(&bytes).unwrap().0, [oracle(&record)]);
    }

    #[test]
    fn records_of_a_message_equal_the_oracle(
        records in similar_records(),
        forms in prop::collection::vec(0_u8..6, 7),
        is_packed in any::<bool>(),
        is_wide in any::<bool>(),
    ) {
        let entries: Vec<Value> = records.iter().cloned().zip(forms).map(|(record, form)| entry(record, form)).collect();
        let entries = match is_packed {
            true => {
                let mut packed = Vec::new();
                for entry in &entries {
                    if is_wide { pack_wide(entry, &mut packed) } else { packed.extend(pack(entry)) }
                }
                Value::Binary(packed)
            }
            false => Value::Array(entries),
        };
        let message = pack(&Value::Array(vec![Value::from("t"), entries]));
        let want: Vec<String> = records.iter().map(|record| oracle(record)).collect();
        prop_assert_eq!(decode(&message).unwrap().0, want);
    }

    #[test]
    fn parts_make_no_difference(
        messages in prop::collection::vec(any_message(), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let stream = messages.concat();
        let (found, error) = frames(1 << 20, &parts(&stream, &cuts));
        prop_assert!(error.is_none());
        prop_assert_eq!(found, messages);
    }

    /// Changed bytes give the same messages and an error at the same place, whatever the parts; and no panic.
    #[test]
    fn damaged_streams_do_not_panic(
        messages in prop::collection::vec(any_message(), 1..4),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        max in 1_usize..400,
    ) {
        let mut stream = messages.concat();
        for (at, byte) in changes {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        let whole = frames(max, &[&stream]);
        prop_assert!(is_same(&whole, &frames(max, &parts(&stream, &cuts))));
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        prop_assert!(is_same(&whole, &frames(max, &bytes)));
        for message in whole.0 {
            let _ = decode(&message);
        }
        let _ = decode(&stream);
    }

    #[test]
    fn any_bytes_decode_without_panic(
        prefix in prop_oneof![Just(&b""[..]), Just(&b"\x92\xa1t"[..]), Just(&b"\x93\xa1t\x01"[..]), Just(&b"\x92\xa1t\xc4\x20"[..])],
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0x80_u8..0xe0], 0..60),
    ) {
        let message = [prefix, &bytes].concat();
        let _ = decode(&message);
        frames(1 << 10, &[&message]);
    }

    /// What the framer finds at the start of any bytes is one whole value.
    #[test]
    fn frames_end_where_a_value_ends(value in any_value(), rest in prop::collection::vec(any::<u8>(), 0..10)) {
        let value = pack(&Value::Array(vec![value]));
        let (found, _) = frames(1 << 20, &[&value, &rest]);
        prop_assert_eq!(&found[0], &value);
    }
}

/// A message cut off anywhere is refused, and nothing of it is an event.
#[test]
fn truncated_messages_are_refused() {
    let message = hex("93a173c4128192a1618201c3a3666f6fcb3ff80000000000000081a568756e6bb8");
    for length in 0..message.len() {
        assert!(decode(&message[..length]).is_err(), "{length}");
    }
}
