//! Bodies of each form, as events.

use bucksaw_record::Labels;
use proptest::prelude::*;

use super::{JsonDecoder, JsonNames};
use crate::Decoded;
use crate::event_lines::EventLines;

fn decode(names: JsonNames, body: &[u8]) -> (String, Result<Decoded, String>) {
    let mut events = EventLines::default();
    let decoded = JsonDecoder::new(names, &Labels::default()).body(body, &mut events);
    (events.events.join("\n"), decoded.map_err(|error| error.to_string()))
}

#[test]
fn an_object_is_the_line_as_it_is_written() {
    let check = |body: &str, want: &str| {
        let (events, decoded) = decode(JsonNames::new("", "", "app,k8s.pod"), body.as_bytes());
        assert_eq!(events, want, "{body}");
        assert_eq!(decoded.unwrap().rejected, 0);
    };
    check(r#"{"app":"x", "a":1.0}"#, r#"app=x|-|{"app":"x", "a":1.0}|"#);
    check(" [\n{\"a\":1} ,{\"a\":2}\n]\n", "|-|{\"a\":1}|\n|-|{\"a\":2}|");
    check("{\"a\":1}\n\n{\"ts\":1700000000}\r\n", "|-|{\"a\":1}|\n|1700000000000.000000|{\"ts\":1700000000}|");
    check(r#"{"k8s":{"pod":"p"},"app":{"no":"label"}}"#, r#"k8s.pod=p|-|{"k8s":{"pod":"p"},"app":{"no":"label"}}|"#);
    check(r#"{"k8s.pod":"p","app":7}"#, r#"app=7,k8s.pod=p|-|{"k8s.pod":"p","app":7}|"#);
    check("[]", "");
    check("", "");
    check("\u{feff}{}", "|-|{}|");
}

#[test]
fn with_a_message_the_other_members_are_attributes() {
    let names = || JsonNames::new("t.at,ts", "msg, message", "app");
    let check = |body: &str, want: &str| assert_eq!(decode(names(), body.as_bytes()).0, want, "{body}");
    check(
        r#"{"t":{"at":"2023-11-14T22:13:20Z"},"ts":1,"app":"x","message":"m","msg":"paid\n","a":{"b":[1, 2]},"n":null}"#,
        "app=x|1700000000000.000000|paid|t.at=2023-11-14T22:13:20Z;a.b=[1, 2]",
    );
    check(r#"{"msg":7,"message":"x"}"#, "|-|x|");
    check(r#"{"msg":7}"#, r#"|-|{"msg":7}|"#);
}

#[test]
fn errors_state_the_object_and_its_offset() {
    let check = |body: &[u8], events: &str, error: &str| {
        let (found, decoded) = decode(JsonNames::new("", "", ""), body);
        assert_eq!(found, events);
        assert!(decoded.as_ref().unwrap_err().contains(error), "{decoded:?}");
    };
    check(b"{\"a\":1}\n{\"a\":}", "|-|{\"a\":1}|", "object 2, from byte 7 of the body");
    check(b"[{}", "|-|{}|", "expected `,` or `]`");
    check(b"[{},", "|-|{}|", "the array does not end");
    check(b"[{}] {}", "|-|{}|", "text follows the array");
    check(b"\xff", "", "invalid UTF-8");
    check("[".repeat(100_000).as_bytes(), "", "object 1");
    let (events, decoded) = decode(JsonNames::new("", "", ""), b"[1,{},\"x\"]");
    assert_eq!((events.as_str(), decoded.unwrap().rejected), ("|-|{}|", 2));
}

proptest! {
    #[test]
    fn all_forms_give_the_same_events(values in prop::collection::vec("[a-z\\\\\"ä\n]{0,9}", 0..6)) {
        let objects: Vec<String> = values.iter().map(|value| serde_json::json!({"m": value}).to_string()).collect();
        let names = || JsonNames::new("", "m", "");
        let array = decode(names(), format!("[{}]", objects.join(",")).as_bytes());
        prop_assert_eq!(array.1.clone().unwrap().accepted, values.len() as u64);
        prop_assert_eq!(decode(names(), objects.join("\n").as_bytes()), array);
    }
}
