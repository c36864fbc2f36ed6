//! Records as line, labels and attributes.

use bucksaw_record::Labels;
use rmpv::Value;

use super::super::FluentDecoder;
use super::{decode, map, pack};
use crate::event_lines::EventLines;

fn message(tag: &[u8], time: Value, record: Value) -> Vec<u8> {
    pack(&Value::Array(vec![Value::Binary(tag.to_vec()), time, record]))
}

/// The event of a record with string keys, at the time of arrival, without the tag: also of one that follows others with the
/// same keys.
fn event(record: &[(&str, Value)]) -> String {
    let record = Value::Map(record.iter().map(|(key, value)| (Value::from(*key), value.clone())).collect());
    let entry = Value::Array(vec![Value::Ext(0, vec![0; 8]), record]);
    let entries = Value::Array(vec![entry; 4]);
    let (events, message) = decode(&pack(&Value::Array(vec![text("t"), entries]))).unwrap();
    assert_eq!((message.decoded.rejected, events.len()), (0, 4));
    assert!(events.iter().all(|event| *event == events[0]), "{events:?}");
    let labels_and_rest = events[0].split_once('|').unwrap();
    let labels = labels_and_rest.0.trim_end_matches("tag=t").trim_end_matches(',');
    format!("{labels}{}", labels_and_rest.1)
}

fn text(text: &str) -> Value {
    Value::from(text)
}

#[test]
fn the_line_is_log_or_message_or_msg_without_one_line_end() {
    assert_eq!(event(&[("a", text("1")), ("log", text("x"))]), "-|x|a=1");
    assert_eq!(event(&[("message", text("m")), ("log", text("x\n")), ("msg", text("n"))]), "-|x|message=m;msg=n");
    assert_eq!(event(&[("msg", text("n")), ("message", text("m\r\n\n"))]), "-|m\r\n|msg=n");
    assert_eq!(event(&[("msg", Value::Binary(b"n".to_vec()))]), "-|n|");
    assert_eq!(event(&[("log", text("")), ("message", text("m"))]), "-||message=m");
    assert_eq!(event(&[("log", text("x")), ("log", text("y"))]), "-|x|log=y", "the first of two");
    assert_eq!(event(&[("log", map(&[("level", text("w"))])), ("msg", text("m"))]), "-|m|log.level=w");
    assert_eq!(event(&[("log", Value::Nil), ("message", Value::from(1)), ("msg", text("m"))]), "-|m|message=1");
}

#[test]
fn a_record_without_a_line_is_its_json_in_order() {
    let record = [
        ("z", text("a\"\n")),
        ("a", Value::Array(vec![Value::Nil, Value::from(-1), Value::F32(0.1), Value::F64(1e300), Value::from(true)])),
        ("host", text("h")),
        ("b", map(&[("c", Value::F64(f64::NAN)), ("d", Value::Binary(b"ok".to_vec()))])),
        ("e", Value::Binary(vec![0xff, 0])),
    ];
    let want =
        r#"host.name=h-|{"z":"a\"\n","a":[null,-1,0.1,1e+300,true],"host":"h","b":{"c":"NaN","d":"ok"},"e":"/wA="}|"#;
    assert_eq!(event(&record), want);
    assert_eq!(event(&[]), "-|{}|");
    // A string that is not UTF-8, which `rmpv` cannot write.
    let message = b"\x93\xa1t\x01\x81\xa1a\xa2\xff!";
    assert_eq!(decode(message).unwrap().0, ["tag=t|1000.000000|{\"a\":\"\u{fffd}!\"}|"]);
    // Its keys are no attributes, so their limits do not apply.
    let long = "k".repeat(300);
    assert_eq!(event(&[(&long, Value::from(1))]), format!("-|{{\"{long}\":1}}|"));
}

#[test]
fn values_are_text_and_maps_are_opened() {
    let check = |value: Value, want: &str| {
        assert_eq!(event(&[("log", text("x")), ("n", value)]), format!("-|x|{want}"));
    };
    check(text("a b\n"), "n=a b\n");
    check(Value::from(u64::MAX), "n=18446744073709551615");
    check(Value::from(i64::MIN), "n=-9223372036854775808");
    check(Value::F32(1.5), "n=1.5");
    check(Value::F64(f64::NEG_INFINITY), "n=-Infinity");
    check(Value::from(false), "n=false");
    check(Value::Nil, "");
    check(Value::Array(vec![map(&[("a", Value::from(1))]), text("b")]), r#"n=[{"a":1},"b"]"#);
    check(map(&[]), "n={}");
    check(map(&[("a", map(&[("b", Value::Nil), ("c", text("v"))])), ("a.d", text("w"))]), "n.a.c=v;n.a.d=w");
    check(Value::Ext(0, vec![0x65, 0x53, 0xf1, 0, 7, 0x5b, 0xcd, 0x15]), "n=2023-11-14T22:13:20.123456Z");
    check(Value::Array(vec![Value::Ext(-1, vec![0x65, 0x53, 0xf1, 0])]), r#"n=["2023-11-14T22:13:20.000000Z"]"#);
    check(Value::Ext(5, b"xyz".to_vec()), "n=xyz");
    check(Value::Array(vec![Value::Ext(5, b"xyz".to_vec())]), r#"n=["eHl6"]"#);
    let deep = (0..10).fold(Value::from(1), |value, _| map(&[("a", value)]));
    check(deep, r#"n.a.a.a.a.a.a.a.a={"a":{"a":1}}"#);
}

#[test]
fn any_bytes_are_kept() {
    let bytes: Vec<u8> = (0..=255).collect();
    let record = Value::Map(vec![
        (text("log"), Value::Binary(bytes.clone())),
        (text("b"), Value::Binary(bytes.clone())),
        (text("host"), Value::Binary(vec![0xff])),
        (Value::Binary(b"k\xff".to_vec()), text("v")),
    ]);
    let mut events = EventLines::default();
    let message = message(b"t\xff", Value::Nil, record);
    FluentDecoder::new(&Labels::default()).decode(&message, 0, &mut events).unwrap();
    assert_eq!(events.lines[0], bytes);
    let lossy = String::from_utf8_lossy(&bytes);
    assert_eq!(events.events, [format!("|-|{lossy}|tag=t\u{fffd};b={lossy};host=\u{fffd};k\u{fffd}=v")]);
}

#[test]
fn keys_that_are_no_strings_are_their_json() {
    let record = |key: Value| Value::Map(vec![(text("log"), text("x")), (key, map(&[("a", Value::from(1))]))]);
    let check = |key: Value, want: &str| {
        assert_eq!(decode(&message(b"t", Value::Nil, record(key))).unwrap().0, [format!("tag=t|-|x|{want}.a=1")]);
    };
    check(Value::from(7), "7");
    check(Value::Nil, "null");
    check(Value::F64(1.5), "1.5");
    check(Value::from(true), "true");
    for key in [Value::Array(vec![]), Value::Map(vec![])] {
        let (events, message) = decode(&message(b"t", Value::Nil, record(key))).unwrap();
        assert_eq!(events, [""; 0]);
        assert_eq!(message.decoded.first_error.unwrap(), "a key of a record is an array or a map");
    }
    assert_eq!(event(&[("log", text("x")), ("", text("lost")), ("a", text("1"))]), "-|x|a=1");
    assert_eq!(event(&[("log", text("x")), ("n\0l", text("1"))]), "-|x|n\u{fffd}l=1");
}

#[test]
fn labels_have_few_values() {
    let log = || ("log", text("x"));
    assert_eq!(event(&[("host", text("h")), log(), ("hostname", text("g"))]), "host.name=h-|x|hostname=g");
    assert_eq!(event(&[("hostname", text("g")), ("host", text("h")), log()]), "host.name=h-|x|hostname=g");
    assert_eq!(event(&[("hostname", text("g")), log()]), "host.name=g-|x|");
    assert_eq!(event(&[("container_name", text("/c")), log()]), "container.name=c-|x|");
    assert_eq!(event(&[("container_name", text("/")), log(), ("host", text(""))]), "-|x|container_name=/;host=");
    assert_eq!(event(&[("host", Value::from(1)), log()]), "-|x|host=1");
    assert_eq!(event(&[("host", map(&[("name", text("h"))])), log()]), "-|x|host.name=h");
    let long = "h".repeat(1_025);
    assert_eq!(event(&[("host", text(&long)), log()]), format!("-|x|host={long}"));
    // The listener's labels prevail.
    let mut events = EventLines::default();
    let record = map(&[log(), ("hostname", text("h"))]);
    let message = message(b"t", Value::Nil, record);
    let labels = Labels::parse("host.name=own,tag=own").unwrap();
    FluentDecoder::new(&labels).decode(&message, 0, &mut events).unwrap();
    assert_eq!(events.events, ["host.name=own,tag=own|-|x|tag=t;hostname=h"]);
}

#[test]
fn times_of_all_forms_are_read() {
    let check = |time: Value, want: &str| {
        // A message with a text or an array in the place of a time is one of another mode.
        let entry = Value::Array(vec![time.clone(), map(&[("log", text("x"))])]);
        let forward = Value::Array(vec![text("t"), Value::Array(vec![entry])]);
        assert_eq!(decode(&pack(&forward)).unwrap().0, [format!("tag=t|{want}|x|")], "{time}");
        if !time.is_str() && !time.is_array() {
            let single = message(b"t", time.clone(), map(&[("log", text("x"))]));
            assert_eq!(decode(&single).unwrap().0, [format!("tag=t|{want}|x|")], "{time}");
        }
    };
    check(Value::from(1_700_000_000), "1700000000000.000000");
    check(Value::F64(1_700_000_000.25), "1700000000250.000000");
    check(Value::F32(1_700_000_000.0), "1700000000000.000000");
    check(text("1700000000.5"), "1700000000500.000000");
    check(text("2023-11-14T22:13:20Z"), "1700000000000.000000");
    check(Value::Array(vec![Value::from(1_700_000_000), Value::Nil, Value::Nil]), "1700000000000.000000");
    check(Value::Ext(0, vec![0x65, 0x53, 0xf1, 0, 0x3b, 0x9a, 0xc9, 0xff]), "1700000000999.999999");
    check(Value::Ext(0, vec![0xff, 0xff, 0xff, 0xfd, 0, 0, 0, 0]), "4294967293000.000000");
    check(Value::Ext(-1, vec![0x65, 0x53, 0xf1, 0]), "1700000000000.000000");
    check(Value::Ext(-1, vec![0, 0, 0, 4, 0x65, 0x53, 0xf1, 0]), "1700000000000.000001");
    check(Value::Ext(-1, [&[0, 0, 0, 5][..], &1_700_000_000_i64.to_be_bytes()].concat()), "1700000000000.000005");
    // Ext8 in place of fixext8.
    let ext8 = b"\x93\xa1t\xc7\x08\x00\x65\x53\xf1\x00\x00\x00\x00\x01\x81\xa3log\xa1x";
    assert_eq!(decode(ext8).unwrap().0, ["tag=t|1700000000000.000001|x|"]);
    for arrival in [
        Value::Nil,
        Value::from(0),
        Value::F64(0.0),
        Value::from(-1),
        Value::F64(f64::NAN),
        Value::from(true),
        text("soon"),
        map(&[]),
        map(&[("a", Value::Array(vec![]))]),
        Value::Array(vec![]),
        Value::Array(vec![Value::Array(vec![Value::from(1)]), text("x")]),
        Value::Ext(0, vec![0; 8]),
        Value::Ext(0, vec![0x65, 0x53, 0xf1, 0, 0x3b, 0x9a, 0xca, 0]),
        Value::Ext(0, vec![1; 7]),
        Value::Ext(-1, vec![0xff; 12]),
        Value::Ext(3, vec![1; 8]),
    ] {
        check(arrival, "-");
    }
}
