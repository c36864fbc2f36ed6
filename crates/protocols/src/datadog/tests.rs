//! Bodies of real senders.

use bucksaw_record::Labels;
use proptest::prelude::*;

use super::{DatadogDecoder, DatadogDefaults, DatadogRequest, accepted, route};
use crate::HttpAnswer;
use crate::event_lines::EventLines;

fn decode(body: &[u8], query: &str) -> (HttpAnswer, Vec<String>) {
    let mut events = EventLines::default();
    let result = DatadogDecoder::new(&Labels::default(), DatadogDefaults::from_query(query)).logs(body, &mut events);
    (result.map_or_else(|error| error.answer(), |_| accepted()), events.events)
}

#[test]
fn objects_become_events() {
    let check = |body: &str, want: &[&str]| {
        let (answer, events) = decode(body.as_bytes(), "");
        assert_eq!((answer.status, events), (202, want.iter().map(|event| (*event).to_owned()).collect()), "{body}");
    };
    // The Datadog Agent.
    check(
        r#"[{"message":"GET / 200\n","status":"warn","timestamp":1700000000123,"hostname":"web1","service":"shop","ddsource":"nginx","ddtags":"env:prod,pod_name:shop-1,canary,url:http://a"}]"#,
        &[
            "env=prod,host.name=web1,service.name=shop,source=nginx|1700000000123.000000|GET / 200|pod_name=shop-1;canary=;url=http://a;severity_text=warn",
        ],
    );
    // The example of Datadog's reference.
    check(
        r#"[{"ddsource":"nginx","ddtags":"env:staging,version:5.1","hostname":"i-012345678","message":"2019-11-19T14:37:58,995 INFO [process.name][20081] Hello World","service":"payment"}]"#,
        &[
            "env=staging,host.name=i-012345678,service.name=payment,source=nginx|-|2019-11-19T14:37:58,995 INFO [process.name][20081] Hello World|version=5.1",
        ],
    );
    check(
        r#"{"message":"x","status":3,"date":"2023-11-14T22:13:20Z"}"#,
        &["|1700000000000.000000|x|severity_text=err"],
    );
    check(
        r#"[{"message":{"a": 1},"http":{"method":"GET","status":200},"dd.trace_id":"7","host":{"x":1}}, {"message":"y"}]"#,
        &[r#"|-|{"a": 1}|http.method=GET;http.status=200;dd.trace_id=7;host.x=1"#, "|-|y|"],
    );
    check(
        r#" {"a": 1, "service":"s", "status":"info"} "#,
        &[r#"service.name=s|-|{"a": 1, "service":"s", "status":"info"}|severity_text=info"#],
    );
    check(r#"[{"message":"x","timestamp":"soon","service":null}]"#, &["|-|x|"]);
    check("[]", &[]);
}

#[test]
fn the_query_states_what_logs_do_not() {
    let (_, events) = decode(
        br#"[{"message":"x"},{"message":"y","service":"b","ddtags":"env:dev"}]"#,
        "ddsource=go&service=a&host=h&ddtags=env%3Aprod,team:t",
    );
    assert_eq!(
        events,
        [
            "env=prod,host.name=h,service.name=a,source=go|-|x|team=t",
            "env=dev,host.name=h,service.name=b,source=go|-|y|env=prod;team=t"
        ]
    );
}

#[test]
fn wrong_bodies_have_errors() {
    let check = |body: &str, status: u16, want: &str, before: usize| {
        let (answer, events) = decode(body.as_bytes(), "");
        assert_eq!((answer.status, events.len()), (status, before), "{body}");
        let json: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(json["errors"][0]["detail"], want, "{body}");
    };
    let not = "the body is not a JSON object or an array of them";
    check("", 400, &format!("{not}: EOF while parsing a value at line 1 column 0"), 0);
    check("x", 400, &format!("{not}: expected value at line 1 column 1"), 0);
    check("[1]", 400, &format!("{not}: invalid type: integer `1`, expected a JSON object at line 1 column 1"), 0);
    check(r#"[{"message":"x"},{"#, 400, &format!("{not}: EOF while parsing an object at line 1 column 18"), 1);
    check(r#"[{"message":"x"}] y"#, 400, &format!("{not}: trailing characters at line 1 column 19"), 1);
    let many: Vec<String> = (0..300).map(|n| format!("\"f{n}\":1")).collect();
    check(
        &format!("[{{\"message\":\"x\"}},{{\"message\":\"x\",{}}}]", many.join(",")),
        400,
        "log 1: more than 256 attributes",
        1,
    );
    assert_eq!(decode(b"[{\"message\":\"\xff\"}]", "").0.status, 400);
    assert_eq!(decode("[".repeat(100_000).as_bytes(), "").0.status, 400);
    let nested = format!("[{{\"message\":\"x\",\"a\":{}1{}}}]", "{\"b\":".repeat(50_000), "}".repeat(50_000));
    assert_eq!(decode(nested.as_bytes(), "").1.len(), 1);
}

#[test]
fn requests_are_distinguished() {
    let status = |method: &str, path: &str| match route(method, path) {
        DatadogRequest::Logs => 0,
        DatadogRequest::Answer(answer) => answer.status,
    };
    assert_eq!(status("POST", "/api/v2/logs"), 0);
    assert_eq!(status("POST", "/v1/input/abc"), 0);
    assert_eq!(status("GET", "/api/v2/logs"), 405);
    assert_eq!(status("GET", "/api/v1/validate"), 200);
    assert_eq!(status("POST", "/api/v2/series"), 404);
}

proptest! {
    #[test]
    fn any_body_has_an_answer(body in "(\\[?\\{\"message\":[\"a{}1n]{0,6}[,}]){0,3}[ -~]{0,20}") {
        let (answer, _) = decode(body.as_bytes(), "");
        prop_assert!(serde_json::from_str::<serde_json::Value>(&answer.body).is_ok());
    }
}
