//! Messages of each kind, as events.

use proptest::prelude::*;

use super::*;
use crate::event_lines::EventLines;
use crate::json::JsonNames;

const AT: i64 = 1_763_683_800_123;

fn message<'a>(value: &'a [u8], headers: &'a [(&'a str, Option<&'a [u8]>)]) -> KafkaMessage<'a> {
    KafkaMessage {
        partition: 3,
        offset: 4_294_967_296,
        timestamp: Some(AT),
        key: None,
        value: Some(value),
        headers,
        has_unreadable_headers: false,
    }
}

fn json(message: &str, labels: &str) -> KafkaMapping {
    KafkaMapping { format: KafkaFormat::Json(JsonNames::new("at", message, labels)), ..KafkaMapping::plain() }
}

fn decode(mapping: &KafkaMapping, message: &KafkaMessage<'_>) -> (String, Option<Undecoded>) {
    let mut events = EventLines::default();
    let undecoded = KafkaDecoder::new(mapping.clone(), "shop").message(message, &mut events);
    assert_eq!(events.events.len(), 1);
    (events.events.concat(), undecoded)
}

#[test]
fn a_plain_value_is_the_line() {
    let check = |value: &[u8], want: &str| {
        assert_eq!(decode(&KafkaMapping::plain(), &message(value, &[])), (want.to_owned(), None));
    };
    check(b"paid", "topic=shop|1763683800123.000000|paid|");
    check(b"one\ntwo\r\n", "topic=shop|1763683800123.000000|one\ntwo|");
    check(b"", "topic=shop|1763683800123.000000||");
    check(b"{\"a\":1}", "topic=shop|1763683800123.000000|{\"a\":1}|");
}

#[test]
fn key_and_headers_are_attributes_or_labels() {
    let headers: [(&str, Option<&[u8]>); 4] =
        [("app", Some(b"a")), ("trace_id", Some(b"4bf9")), ("trace_id", None), ("bin", Some(b"\xff"))];
    let full = KafkaMessage { key: Some(b"k1"), ..message(b"x", &headers) };
    let check = |mapping: KafkaMapping, want: &str| assert_eq!(decode(&mapping, &full), (want.to_owned(), None));
    let rest = "trace_id=4bf9;trace_id=;bin=\u{fffd}";
    check(
        KafkaMapping::plain(),
        &format!("topic=shop|1763683800123.000000|x|messaging.kafka.message.key=k1;app=a;{rest}"),
    );
    check(
        KafkaMapping {
            key_label: Some("customer".to_owned()),
            label_headers: vec!["app".to_owned(), "bin".to_owned()],
            with_position: true,
            ..KafkaMapping::plain()
        },
        &format!(
            "app=a,customer=k1,topic=shop|1763683800123.000000|x|{rest};messaging.destination.partition.id=3;messaging.kafka.offset=4294967296"
        ),
    );
}

#[test]
fn a_json_value_is_mapped_as_a_body_is() {
    let check = |mapping: KafkaMapping, value: &str, want: &str| {
        assert_eq!(decode(&mapping, &message(value.as_bytes(), &[])), (want.to_owned(), None), "{value}");
    };
    check(json("", ""), " {\"a\":1}\n", "topic=shop|1763683800123.000000|{\"a\":1}|");
    check(
        json("msg", "app"),
        r#"{"at":1763683800,"app":"a","msg":"paid\n","n":7,"topic":"t"}"#,
        "app=a,topic=shop|1763683800000.000000|paid|n=7;topic=t",
    );
    check(json("msg", "topic"), r#"{"msg":"x","topic":"t"}"#, "topic=shop|1763683800123.000000|x|topic=t");
}

#[test]
fn a_time_of_the_value_is_at_most_an_hour_ahead_of_the_message() {
    let check = |at: i64, timestamp: Option<i64>, want: &str| {
        let value = format!("{{\"at\":{at}}}");
        let message = KafkaMessage { timestamp, ..message(value.as_bytes(), &[]) };
        let event = decode(&json("", ""), &message).0;
        assert_eq!(event.split('|').nth(1), Some(want), "{at}");
    };
    check(AT + 3_600_000, Some(AT), "1763687400123.000000");
    check(AT + 3_600_001, Some(AT), "1763683800123.000000");
    check(AT - 9_000_000, Some(AT), "1763674800123.000000");
    check(AT + 9_000_000_000, None, "1772683800123.000000");
    check(AT, Some(-1), "1763683800123.000000");
}

#[test]
fn the_unit_of_a_timestamp_is_guessed() {
    let check = |timestamp: Option<i64>, want: &str| {
        let event = decode(&KafkaMapping::plain(), &KafkaMessage { timestamp, ..message(b"x", &[]) }).0;
        assert_eq!(event.split('|').nth(1), Some(want), "{timestamp:?}");
    };
    check(Some(1_763_683_800), "1763683800000.000000");
    check(Some(1_763_683_800_123_456), "1763683800123.456000");
    check(Some(1_763_683_800_123_456_789), "1763683800123.456789");
    check(Some(-1), "-");
    check(None, "-");
}

#[test]
fn what_does_not_fit_the_mapping_is_stored_as_it_is() {
    let one_header: [(&str, Option<&[u8]>); 1] = [("h", Some(b"v"))];
    let check = |mapping: KafkaMapping, message: KafkaMessage<'_>, want: &str, reason| {
        let (event, undecoded) = decode(&mapping, &message);
        assert_eq!((event, undecoded), (format!("topic=shop|1763683800123.000000|{want}"), Some(reason)));
    };
    let tombstone = KafkaMessage { key: Some(b"k"), value: None, ..message(b"", &[]) };
    check(
        json("", ""),
        tombstone,
        "|messaging.kafka.message.key=k;messaging.kafka.message.tombstone=true",
        Undecoded::Tombstone,
    );
    for value in ["[1]", "{\"a\":1} x", "{\"app\":\"a\",\"topic\":\"t\",\"msg\":", "no"] {
        let want = format!("{value}|h=v;messaging.kafka.undecoded=invalid_json");
        check(json("msg", "app,topic"), message(value.as_bytes(), &one_header), &want, Undecoded::InvalidJson);
    }
    let unreadable = KafkaMessage { has_unreadable_headers: true, ..message(b"x", &one_header) };
    check(KafkaMapping::plain(), unreadable, "x|h=v;messaging.kafka.undecoded=header_name", Undecoded::HeaderName);
    let names: Vec<String> = (0..300).map(|number| format!("n{number}")).collect();
    let many: Vec<(&str, Option<&[u8]>)> = names.iter().map(|name| (&**name, Some(&b"\""[..]))).collect();
    let (event, undecoded) = decode(&KafkaMapping::plain(), &message(b"x", &many));
    let want = "topic=shop|1763683800123.000000|x|messaging.kafka.undecoded=too_many_attributes;messaging.kafka.headers=\"n0\"=\"\\\"\" \"n1\"=";
    assert!(event.starts_with(want) && undecoded == Some(Undecoded::TooManyAttributes), "{event}");
}

#[test]
fn headers_that_leave_no_room_are_cut_and_then_left_out() {
    let value = vec![b'v'; 100_000];
    let headers: [(&str, Option<&[u8]>); 2] = [("a", Some(&value)), ("b", Some(b"lost"))];
    let check = |value_bytes_max, want_bytes: usize| {
        let mut events = EventLines { value_bytes_max: Some(value_bytes_max), ..EventLines::default() };
        let mut decoder = KafkaDecoder::new(KafkaMapping::plain(), "shop");
        assert_eq!(decoder.message(&message(b"x", &headers), &mut events), Some(Undecoded::TooManyAttributes));
        let event = events.events.concat();
        let attributes = event.rsplit_once('|').unwrap().1;
        assert_eq!(attributes.split_once("headers=").map_or(0, |(_, text)| text.len()), want_bytes);
    };
    check(50_000, 16 << 10);
    check(100, 0);
}

proptest! {
    /// Any message is one event, and the same one again.
    #[test]
    fn any_message_is_one_event(
        value in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
        text in "[{\"a:1,} ]{0,20}",
        key in prop::option::of(prop::collection::vec(any::<u8>(), 0..9)),
        names in prop::collection::vec("\\PC{0,4}", 0..4),
        timestamp: Option<i64>,
        is_json: bool,
    ) {
        let mapping = if is_json { json("a", "a,b") } else { KafkaMapping::plain() };
        let headers: Vec<(&str, Option<&[u8]>)> = names.iter().map(|name| (&**name, key.as_deref())).collect();
        for value in [value.as_deref(), Some(text.as_bytes())] {
            let message = KafkaMessage { value, key: key.as_deref(), timestamp, ..message(b"", &headers) };
            prop_assert_eq!(decode(&mapping, &message), decode(&mapping, &message));
        }
    }
}
