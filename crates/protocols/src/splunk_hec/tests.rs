//! Bodies and requests of real senders.

use bucksaw_record::Labels;
use proptest::prelude::*;

use super::{HecCode, HecDecoder, HecMetadata, HecRequest, answer_acks, route, success};
use crate::HttpAnswer;
use crate::event_lines::EventLines;

fn decode(body: &[u8], query: &str) -> (HttpAnswer, Vec<String>) {
    let mut events = EventLines::default();
    let result = HecDecoder::new(&Labels::default(), HecMetadata::from_query(query)).events(body, &mut events);
    (result.map_or_else(|error| error.answer(), |_| success(None)), events.events)
}

#[test]
fn objects_become_events() {
    let check = |body: &str, want: &[&str]| {
        let (answer, events) = decode(body.as_bytes(), "");
        assert_eq!((answer.status, events), (200, want.iter().map(|event| (*event).to_owned()).collect()), "{body}");
    };
    check(r#"{"event":"hello"}"#, &["|-|hello|"]);
    // Docker's log driver.
    check(
        r#"{"event":{"line":"x y","source":"stdout","tag":"ab12"},"time":"1700000000.123456","host":"node1","source":"s","sourcetype":"t"}"#,
        &[
            r#"host.name=node1,source=s,sourcetype=t|1700000000123.456000|{"line":"x y","source":"stdout","tag":"ab12"}|"#,
        ],
    );
    // The exporter of OpenTelemetry.
    check(
        r#"{"time":1700000000.5,"host":"h","source":"otel","sourcetype":"otel","index":"main","event":"a\nb\n","fields":{"otel.log.severity.text":"WARN","n":7,"b":true,"list":["a","b"],"none":null}}"#,
        &[r#"host.name=h,index=main,source=otel,sourcetype=otel|1700000000500.000000|a
b|otel.log.severity.text=WARN;n=7;b=true;list=["a","b"]"#],
    );
    check("{\"event\":1}{\"event\":2} \n{\"event\":[3]}\n", &["|-|1|", "|-|2|", "|-|[3]|"]);
    check(r#"{"event":"x","time":null,"host":"","fields":null,"more":{"a":1}}"#, &[r#"|-|x|more={"a":1}"#]);
    check(r#"{"event":"x","time":""}"#, &["|-|x|"]);
}

#[test]
fn the_query_states_what_events_do_not() {
    let (_, events) = decode(
        br#"{"event":"x"}{"event":"y","host":"b","time":1700000001}"#,
        "host=a&source=%2Fvar%2Flog&time=1700000000&channel=7",
    );
    assert_eq!(
        events,
        ["host.name=a,source=/var/log|1700000000000.000000|x|", "host.name=b,source=/var/log|1700000001000.000000|y|"]
    );
}

#[test]
fn raw_text_has_an_event_in_each_line() {
    let mut events = EventLines::default();
    let mut decoder = HecDecoder::new(&Labels::parse("site=x").unwrap(), HecMetadata::from_query("sourcetype=nginx"));
    assert_eq!(decoder.raw(b"one\r\n\n two\xff\nthree", &mut events).unwrap(), 3);
    assert_eq!(events.lines, [&b"one"[..], b" two\xff", b"three"]);
    assert_eq!(events.events[0], "site=x,sourcetype=nginx|-|one|");
    assert_eq!(decoder.raw(b"\n\n", &mut events).unwrap_err().code, HecCode::NoData);
}

#[test]
fn wrong_events_have_the_codes_of_splunk() {
    let check = |body: &str, status: u16, want: &str, before: usize| {
        let (answer, events) = decode(body.as_bytes(), "");
        assert_eq!((answer.status, &*answer.body, events.len()), (status, want, before), "{body}");
    };
    check("", 400, r#"{"text":"No data","code":5}"#, 0);
    check(" \n", 400, r#"{"text":"No data","code":5}"#, 0);
    check("hello", 400, r#"{"text":"Invalid data format","code":6,"invalid-event-number":0}"#, 0);
    check(r#"{"event":"x"}{"event":"#, 400, r#"{"text":"Invalid data format","code":6,"invalid-event-number":1}"#, 1);
    check(r#"[{"event":"x"}]"#, 400, r#"{"text":"Invalid data format","code":6,"invalid-event-number":0}"#, 0);
    check(
        r#"{"event":"x","time":"soon"}"#,
        400,
        r#"{"text":"Invalid data format","code":6,"invalid-event-number":0}"#,
        0,
    );
    check(
        r#"{"event":"x"}{"a":1}"#,
        400,
        r#"{"text":"Event field is required","code":12,"invalid-event-number":1}"#,
        1,
    );
    check(r#"{"event":null}"#, 400, r#"{"text":"Event field is required","code":12,"invalid-event-number":0}"#, 0);
    check(r#"{"event":""}"#, 400, r#"{"text":"Event field cannot be blank","code":13,"invalid-event-number":0}"#, 0);
    let fields = r#"{"text":"Error in handling indexed fields","code":15,"invalid-event-number":0}"#;
    check(r#"{"event":"x","fields":{"a":{"b":1}}}"#, 400, fields, 0);
    check(r#"{"event":"x","fields":[1]}"#, 400, fields, 0);
    let many: Vec<String> = (0..300).map(|n| format!("\"f{n}\":1")).collect();
    check(&format!("{{\"event\":\"x\",\"fields\":{{{}}}}}", many.join(",")), 400, fields, 0);
    assert_eq!(decode(b"{\"event\":\"\xff\"}", "").0.status, 400);
    assert_eq!(success(Some(7)).body, r#"{"text":"Success","code":0,"ackId":7}"#);
    assert_eq!(HecCode::ServerBusy.answer(), HttpAnswer::new(503, r#"{"text":"Server is busy","code":9}"#));
    assert_eq!(HecCode::Healthy.answer().body, r#"{"text":"HEC is healthy","code":17}"#);
}

#[test]
fn acknowledgements_are_answered() {
    let answer = answer_acks(br#"{"acks":[1,0,3]}"#, |id| id < 2);
    assert_eq!((answer.status, &*answer.body), (200, r#"{"acks":{"0":true,"1":true,"3":false}}"#));
    for bad in [&b""[..], b"{}", b"[1]", br#"{"acks":[-1]}"#] {
        assert_eq!(answer_acks(bad, |_| true).body, r#"{"text":"Invalid data format","code":6}"#);
    }
}

#[test]
fn requests_are_distinguished() {
    let check = |method: &str, path: &str, want: HecRequest| assert_eq!(route(method, path), want, "{method} {path}");
    check("POST", "/services/collector", HecRequest::Events);
    check("POST", "/services/collector/", HecRequest::Events);
    check("POST", "/services/collector/event", HecRequest::Events);
    check("POST", "/services/collector/event/1.0", HecRequest::Events);
    check("POST", "/services/collector/raw/1.0", HecRequest::Raw);
    check("POST", "/services/collector/ack", HecRequest::Acks);
    check("GET", "/services/collector/health/1.0", HecRequest::Health);
    check("GET", "/services/collector/event", HecRequest::WrongMethod);
    check("OPTIONS", "/services/collector/event/1.0", HecRequest::Options { allowed: "POST" });
    check("OPTIONS", "/services/collector/health", HecRequest::Options { allowed: "GET" });
    check("OPTIONS", "/services/collector/other", HecRequest::NotFound);
    check("POST", "/services/collectors", HecRequest::NotFound);
    check("POST", "/services/collector/mint", HecRequest::NotFound);
    check("POST", "/", HecRequest::NotFound);
}

proptest! {
    #[test]
    fn any_body_has_an_answer(body in "(\\{\"event\":[\"a{}1n]{0,6}[,}]){0,3}[ -~]{0,20}") {
        let (answer, _) = decode(body.as_bytes(), "");
        prop_assert!(serde_json::from_str::<serde_json::Value>(&answer.body).is_ok());
    }
}
