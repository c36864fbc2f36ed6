//! Requests that the official crate encodes, as events; both encodings give the same.

use bucksaw_record::Labels;
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use proptest::prelude::*;
use prost::Message as _;

use super::{ExportAnswer, OtlpDecoder, OtlpError, OtlpStatus};
use crate::Decoded;
use crate::event_lines::EventLines;

fn wrap_value(value: Value) -> AnyValue {
    AnyValue { value: Some(value) }
}

fn text(value: &str) -> AnyValue {
    wrap_value(Value::StringValue(value.to_owned()))
}

fn pair(key: &str, value: AnyValue) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

fn request(resource: Vec<KeyValue>, records: Vec<LogRecord>) -> ExportLogsServiceRequest {
    let scope = InstrumentationScope {
        name: "lib".to_owned(),
        version: "2".to_owned(),
        attributes: vec![pair("s", text("t"))],
        ..InstrumentationScope::default()
    };
    let scope_logs = ScopeLogs { scope: Some(scope), log_records: records, ..ScopeLogs::default() };
    let resource = Resource { attributes: resource, ..Resource::default() };
    let logs = ResourceLogs { resource: Some(resource), scope_logs: vec![scope_logs], ..ResourceLogs::default() };
    ExportLogsServiceRequest { resource_logs: vec![logs] }
}

fn protobuf(body: &[u8]) -> Result<(Vec<String>, Decoded), OtlpError> {
    let mut events = EventLines::default();
    let decoded = OtlpDecoder::new(&Labels::default()).protobuf(body, &mut events)?;
    Ok((events.events, decoded))
}

fn json(body: &[u8]) -> Result<(Vec<String>, Decoded), OtlpError> {
    let mut events = EventLines::default();
    let decoded = OtlpDecoder::new(&Labels::default()).json(body, &mut events)?;
    Ok((events.events, decoded))
}

#[test]
fn every_field_of_a_record_is_kept() {
    let map = KeyValueList { values: vec![pair("k", wrap_value(Value::IntValue(-1))), pair("n", AnyValue::default())] };
    let list = ArrayValue {
        values: vec![text("a\"b"), wrap_value(Value::DoubleValue(1.0)), wrap_value(Value::KvlistValue(map))],
    };
    let record = LogRecord {
        time_unix_nano: 1_700_000_000_000_000_001,
        observed_time_unix_nano: 1_700_000_001_000_000_000,
        severity_number: 9,
        severity_text: "Information".to_owned(),
        body: Some(text("paid\n")),
        attributes: vec![
            pair("i", wrap_value(Value::IntValue(-7))),
            pair("b", wrap_value(Value::BoolValue(true))),
            pair("d", wrap_value(Value::DoubleValue(0.5))),
            pair("y", wrap_value(Value::BytesValue(b"raw".to_vec()))),
            pair("l", wrap_value(Value::ArrayValue(list))),
            pair("nan", wrap_value(Value::DoubleValue(f64::NAN))),
        ],
        dropped_attributes_count: 3,
        flags: 1,
        trace_id: (0..16).collect(),
        span_id: vec![0xff; 8],
        event_name: "pay".to_owned(),
    };
    let resource = vec![
        pair("service.name", text("shop")),
        pair("k8s.pod.name", text("shop-1")),
        pair("host.name", text(&"x".repeat(2_000))),
    ];
    let (events, decoded) = protobuf(&request(resource, vec![record]).encode_to_vec()).unwrap();
    let host = "x".repeat(2_000);
    let want = format!(
        "service.name=shop|1700000000000.000001|paid|k8s.pod.name=shop-1;host.name={host};otel.scope.name=lib;\
         otel.scope.version=2;s=t;i=-7;b=true;d=0.5;y=raw;l=[\"a\\\"b\",1.0,{{\"k\":-1,\"n\":null}}];nan=NaN;severity_text=Information;\
         event_name=pay;severity_number=9;otel.dropped_attributes_count=3;trace_id=000102030405060708090a0b0c0d0e0f;\
         span_id=ffffffffffffffff;trace_flags=01;observed_timestamp=2023-11-14T22:13:21.000000Z"
    );
    assert_eq!(events, [want]);
    assert_eq!(decoded, Decoded { accepted: 1, ..Decoded::default() });
}

#[test]
fn what_is_not_stated_is_left_out() {
    let check = |record: LogRecord, want: &str| {
        let (events, _) = protobuf(&request(vec![], vec![record]).encode_to_vec()).unwrap();
        assert_eq!(events, [want]);
    };
    let scope = "otel.scope.name=lib;otel.scope.version=2;s=t";
    check(LogRecord::default(), &format!("|-||{scope}"));
    let record = LogRecord { observed_time_unix_nano: 1_000_000, trace_id: vec![0; 16], ..LogRecord::default() };
    check(record, &format!("|1.000000||{scope}"));
    let record = LogRecord { event_name: "click".to_owned(), severity_number: 17, ..LogRecord::default() };
    check(record, &format!("|-|click|{scope};severity_text=ERROR;event_name=click;severity_number=17"));
    let body = KeyValueList { values: vec![pair("a", text("b"))] };
    let record = LogRecord { body: Some(wrap_value(Value::KvlistValue(body))), ..LogRecord::default() };
    check(record, &format!("|-|{{\"a\":\"b\"}}|{scope}"));
}

/// The example of the OpenTelemetry protocol repository, with a resource behind its records, an unknown member, and numbers
/// in both forms.
#[test]
fn json_of_senders_is_read() {
    let body = br#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[
        {"timeUnixNano":"1544712660300000000","observedTimeUnixNano":1544712660300000000,"severityNumber":10,"severityText":"Information",
         "traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174","flags":1,"body":{"stringValue":"Example log record"},
         "attributes":[{"key":"string.attribute","value":{"stringValue":"some string"}},{"key":"int.attribute","value":{"intValue":"10"}},
          {"key":"int","value":{"intValue":10}},{"key":"double.attribute","value":{"doubleValue":637.704}},{"key":"nan","value":{"doubleValue":"NaN"}},
          {"key":"bytes","value":{"bytesValue":"YQ"}},
          {"key":"array.attribute","value":{"arrayValue":{"values":[{"stringValue":"many"},{"stringValue":"values"},{},null]}}},
          {"key":"map.attribute","value":{"kvlistValue":{"values":[{"key":"some.map.key","value":{"stringValue":"some value"}}]}}}],"newMember":[{}]},
        {"severityNumber":"SEVERITY_NUMBER_WARN","traceId":"","body":null,"timeUnixNano":null,"eventName":"e"},
        {"body":{"stringValue":"half \ud800 pair"}}
        ]}],"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"my.service"}}]}},{},{"scopeLogs":[{}]}]}"#;
    let (events, decoded) = json(body).unwrap();
    assert_eq!(decoded.accepted, 3);
    assert_eq!(
        events[0],
        "service.name=my.service|1544712660300.000000|Example log record|string.attribute=some string;int.attribute=10;int=10;\
         double.attribute=637.704;nan=NaN;bytes=a;array.attribute=[\"many\",\"values\",null,null];\
         map.attribute={\"some.map.key\":\"some value\"};severity_text=Information;severity_number=10;\
         trace_id=5b8efff798038103d269b633813fc60c;span_id=eee19b7ec3c1b174;trace_flags=01"
    );
    assert_eq!(events[1], "service.name=my.service|-|e|severity_text=WARN;event_name=e;severity_number=13");
    assert!(events[2].starts_with("service.name=my.service|-|half "));
}

#[test]
fn hostile_requests_are_errors() {
    let nested = |depth: usize| {
        let mut value = text("x");
        for _ in 0..depth {
            value = wrap_value(Value::ArrayValue(ArrayValue { values: vec![value] }));
        }
        request(vec![], vec![LogRecord { body: Some(value), ..LogRecord::default() }])
    };
    assert!(protobuf(&nested(31).encode_to_vec()).is_ok());
    assert!(matches!(protobuf(&nested(32).encode_to_vec()), Err(OtlpError::Nesting)));
    let wrap = |depth: usize| {
        let value = format!("{}{{}}{}", r#"{"arrayValue":{"values":["#.repeat(depth), "]}}".repeat(depth));
        format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"body":{value}}}]}}]}}]}}"#)
    };
    assert!(json(wrap(31).as_bytes()).is_ok());
    assert!(json(wrap(40).as_bytes()).is_err() && json(wrap(100_000).as_bytes()).is_err());
    let body = nested(1).encode_to_vec();
    assert!((1..body.len()).all(|end| protobuf(&body[..end]).is_err()));
    let check = |record: &str, want: &str| {
        let body = format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{record}]}}]}}]}}"#);
        let error = json(body.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(want), "{record}: {error}");
    };
    check(r#"{"traceId":"ab"}"#, "`ab` is not an id of 32 hexadecimal digits");
    check(r#"{"spanId":"zzzzzzzzzzzzzzzz"}"#, "is not an id of 16");
    check(r#"{"timeUnixNano":"soon"}"#, "an integer as a number or a string");
    check(r#"{"body":{"bytesValue":"?"}}"#, "invalid bytesValue");
    assert!(json(b"\xff").is_err() && json(b"[]").is_err() && json(b"").is_err());
}

#[test]
fn answers_decode_with_the_official_crate() {
    let none = Decoded { accepted: 3, ..Decoded::default() };
    assert_eq!((ExportAnswer(&none).protobuf(), ExportAnswer(&none).json()), (vec![], b"{}".to_vec()));
    let some = Decoded { accepted: 1, rejected: 300, first_error: Some("too \"long\"".to_owned()) };
    let answer = ExportLogsServiceResponse::decode(&*ExportAnswer(&some).protobuf()).unwrap();
    let partial = answer.partial_success.unwrap();
    assert_eq!((partial.rejected_log_records, &*partial.error_message), (300, "too \"long\""));
    let json = br#"{"partialSuccess":{"rejectedLogRecords":"300","errorMessage":"too \"long\""}}"#;
    assert_eq!(ExportAnswer(&some).json(), json);
    let status = OtlpStatus { code: 3, message: "x".to_owned(), retry_after_s: None };
    assert_eq!(
        (status.protobuf(), status.json()),
        (b"\x08\x03\x12\x01x".to_vec(), br#"{"code":3,"message":"x"}"#.to_vec())
    );
    let status = OtlpStatus { code: 8, message: "x".to_owned(), retry_after_s: Some(5) };
    let any = b"\x0a\x28type.googleapis.com/google.rpc.RetryInfo\x12\x04\x0a\x02\x08\x05";
    assert_eq!(status.protobuf(), [&b"\x08\x08\x12\x01x\x1a\x30"[..], any].concat());
    let json: serde_json::Value = serde_json::from_slice(&status.json()).unwrap();
    assert_eq!(json["details"][0]["retryDelay"], "5s");
}

#[test]
fn a_refused_record_does_not_affect_the_others() {
    let record = |name: &str| LogRecord { attributes: vec![pair(name, text("v"))], ..LogRecord::default() };
    let body = request(vec![], vec![record("a"), record(&"n".repeat(256)), record("b")]).encode_to_vec();
    let (events, decoded) = protobuf(&body).unwrap();
    assert_eq!((events.len(), decoded.accepted, decoded.rejected), (2, 2, 1));
    assert!(decoded.first_error.unwrap().contains("longer than 255 bytes"));
}

fn any_values() -> impl Strategy<Value = AnyValue> {
    let leaf = prop_oneof![
        "[ -~ä\n]{0,12}".prop_map(|value| text(&value)),
        any::<bool>().prop_map(|value| wrap_value(Value::BoolValue(value))),
        any::<i64>().prop_map(|value| wrap_value(Value::IntValue(value))),
        (-1e6..1e6).prop_map(|value: f64| wrap_value(Value::DoubleValue(value))),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(|value| wrap_value(Value::BytesValue(value))),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4);
        let map = prop::collection::vec(("[a-z]{0,4}", inner), 0..4);
        prop_oneof![
            list.prop_map(|values| wrap_value(Value::ArrayValue(ArrayValue { values }))),
            map.prop_map(|pairs| {
                let values = pairs.into_iter().map(|(key, value)| pair(&key, value)).collect();
                wrap_value(Value::KvlistValue(KeyValueList { values }))
            }),
        ]
    })
}

proptest! {
    /// The official crate encodes one request in both encodings; the events are the same.
    #[test]
    fn both_encodings_give_the_same_events(
        records in prop::collection::vec((any::<u64>(), 0..25_i32, any_values(), prop::collection::vec(("[a-z.]{1,6}", any_values()), 0..4)), 0..4),
        resource in prop::collection::vec(("(service.name|host.name|[a-z]{1,3})", any_values()), 0..4),
    ) {
        let pairs = |list: Vec<(String, AnyValue)>| list.into_iter().map(|(key, value)| pair(&key, value)).collect::<Vec<_>>();
        let records: Vec<LogRecord> = records.into_iter().map(|(time, severity_number, body, attributes)| LogRecord {
            time_unix_nano: time >> 1,
            severity_number,
            body: Some(body),
            attributes: pairs(attributes),
            trace_id: time.to_le_bytes().repeat(2),
            ..LogRecord::default()
        }).collect();
        let count = records.len() as u64;
        let request = request(pairs(resource), records);
        let from_protobuf = protobuf(&request.encode_to_vec()).unwrap();
        prop_assert_eq!(from_protobuf.1.accepted, count);
        prop_assert_eq!(json(&serde_json::to_vec(&request).unwrap()).unwrap(), from_protobuf);
    }

    #[test]
    fn any_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = protobuf(&bytes);
        let _ = json(&bytes);
    }
}
