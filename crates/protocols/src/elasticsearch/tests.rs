//! Bulk bodies and requests of real senders.

use bucksaw_record::Labels;
use proptest::prelude::*;
use serde_json::Value;

use super::{BulkDecoder, BulkReply, ElasticError, ElasticRequest, route};
use crate::event_lines::EventLines;

fn decode(body: &[u8], index: &str) -> (Result<BulkReply, ElasticError>, Vec<String>) {
    let mut events = EventLines::default();
    let reply = BulkDecoder::new(&Labels::default()).decode(body, index, &mut events);
    (reply, events.events)
}

#[test]
fn documents_are_lines_byte_for_byte() {
    // As Filebeat sends them.
    let document = r#"{"@timestamp":"2023-11-14T22:13:20.123Z", "message":"a\u0062","host":{"name":"web1"},"service":{"name":"shop"},"x":[1, {"y": 2.50}]}"#;
    let body = format!(
        "{{\"create\":{{\"_index\":\"filebeat-8.17.0\"}}}}\n{document}\n{{\"index\":{{\"_id\":\"a\\\"b\",\"pipeline\":\"p\"}}}}\r\n{{}}\r\n"
    );
    let (reply, events) = decode(body.as_bytes(), "logs");
    assert_eq!(
        events,
        [
            format!("host.name=web1,index=filebeat-8.17.0,service.name=shop|1700000000123.000000|{document}|"),
            "index=logs|-|{}|_id=a\"b;pipeline=p".to_owned(),
        ]
    );
    let reply = String::from_utf8(reply.unwrap().body(7)).unwrap();
    assert_eq!(
        reply,
        r#"{"took":7,"errors":false,"items":[{"create":{"_index":"filebeat-8.17.0","_version":1,"result":"created","status":201}},{"index":{"_index":"logs","_id":"a\"b","_version":1,"result":"created","status":201}}]}"#
    );
}

#[test]
fn operations_are_refused_one_by_one() {
    let body = b"{\"create\":{}}\n{\"a\":1}\n\n{\"create\":{}}\n{\"a\":\n{\"delete\":{\"_id\":\"7\"}}\n{\"update\":{\"_id\":\"7\"}}\n{\"doc\":{}}\n{\"create\":{}}\n{\"a\":\"\xff\"}\n{\"create\":{}}\n[1]\n";
    let (reply, events) = decode(body, "logs");
    assert_eq!(events, ["index=logs|-|{\"a\":1}|"]);
    let reply = reply.unwrap();
    assert_eq!((reply.accepted(), reply.refused()), (1, 5));
    let reply: Value = serde_json::from_slice(&reply.body(0)).unwrap();
    assert_eq!(reply["errors"], true);
    let items: Vec<String> = reply["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            let (action, item) = item.as_object().unwrap().iter().next().unwrap();
            format!(
                "{action} {} {} {}",
                item["status"],
                item["error"]["type"].as_str().unwrap_or("-"),
                item["error"]["reason"].as_str().unwrap_or("-")
            )
        })
        .collect();
    assert_eq!(
        items,
        [
            "create 201 - -",
            "create 400 document_parsing_exception failed to parse: EOF while parsing a value at line 1 column 5",
            "delete 400 illegal_argument_exception [delete] is not supported, as records are never changed: use [create] or [index]",
            "update 400 illegal_argument_exception [update] is not supported, as records are never changed: use [create] or [index]",
            "create 400 document_parsing_exception failed to parse: invalid UTF-8 at byte 6",
            "create 400 document_parsing_exception failed to parse: invalid type: sequence, expected a JSON object at line 1 column 0",
        ]
    );
}

#[test]
fn an_event_that_the_sink_refuses_has_an_error() {
    let mut events = EventLines { value_bytes_max: Some(3), ..EventLines::default() };
    let body = b"{\"create\":{\"_id\":\"long\"}}\n{}\n{\"create\":{\"_id\":\"s\"}}\n{}\n";
    let reply = BulkDecoder::new(&Labels::default()).decode(body, "logs", &mut events).unwrap();
    assert_eq!((reply.accepted(), reply.refused(), events.events.len()), (1, 1, 1));
    assert!(String::from_utf8(reply.body(0)).unwrap().contains("the attributes have 4 bytes; a record may have 3"));
}

#[test]
fn wrong_bodies_are_refused_as_a_whole() {
    let good = "{\"create\":{}}\n{}\n";
    let check = |body: &str, index: &str, want: &str| {
        let (reply, events) = decode(body.as_bytes(), index);
        assert_eq!(reply.unwrap_err().to_string(), want, "{body}");
        assert!(events.is_empty());
    };
    check("", "i", "parse_exception: request body is required");
    check(
        &format!("{good}{{}}"),
        "i",
        r"illegal_argument_exception: The bulk request must be terminated by a newline [\n]",
    );
    check(good, "", "action_request_validation_exception: Validation Failed: line [1]: index is missing;");
    check(
        &format!("{good}{good}{{\"create\":{{}}}}\n"),
        "i",
        "illegal_argument_exception: The action on line [5] has no document behind it",
    );
    let line = "illegal_argument_exception: Malformed action/metadata line";
    check(&format!("{good}x\n"), "i", &format!("{line} [3], expected value at line 1 column 1"));
    check(
        "{\"drop\":{}}\n",
        "i",
        &format!("{line} [1], expected one of [create, delete, index, update] but found [drop]"),
    );
    check("{}\n", "i", &format!("{line} [1], expected one of [create, delete, index, update] but found [END_OBJECT]"));
    check(
        "{\"create\":1}\n",
        "i",
        &format!("{line} [1], invalid type: integer `1`, expected a JSON object at line 1 column 1"),
    );
    check(good, &"i".repeat(256), "invalid_index_name_exception: line [1]: index name is too long, (256 > 255)");
    let many = "{\"delete\":{}}\n".repeat(BulkDecoder::OPERATIONS_MAX + 1);
    check(&many, "i", "content_too_long_exception: a bulk request may have 100000 operations: send several requests");
}

#[test]
fn bulk_requests_are_found() {
    let check = |method: &str, path: &str, want: Option<&str>| {
        let got = match route(method, path) {
            ElasticRequest::Bulk { index } => Some(index.into_owned()),
            ElasticRequest::Answer(_) => None,
        };
        assert_eq!(got.as_deref(), want, "{method} {path}");
    };
    check("POST", "/_bulk", Some(""));
    check("PUT", "/_bulk/", Some(""));
    check("POST", "/logs-a/_bulk", Some("logs-a"));
    check("POST", "/logs-a/_doc/_bulk", Some("logs-a"));
    check("POST", "/%3Clogs%3E/_bulk", Some("<logs>"));
    check("GET", "/_bulk", None);
    check("POST", "/_monitoring/bulk", None);
    check("POST", "/_monitoring/_bulk", None);
}

#[test]
fn probes_are_answered() {
    let check = |method: &str, path: &str, status: u16, want: &str| {
        let ElasticRequest::Answer(answer) = route(method, path) else { panic!("{path}") };
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        if method == "HEAD" {
            return assert_eq!(answer.body, "");
        }
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        assert!(answer.body.contains(want), "{method} {path}: {body}");
    };
    check("GET", "/", 200, r#""number":"8.17.0""#);
    check("GET", "", 200, r#""build_type":"bucksaw""#);
    check("HEAD", "/", 200, "");
    check("GET", "/_license", 200, r#"{"license":{"status":"active""#);
    check("GET", "/_xpack", 200, r#""license":{"status":"active""#);
    check("GET", "/_cluster/health", 200, r#""status":"green""#);
    check("GET", "/_nodes/http", 200, r#""nodes":{}"#);
    for path in [
        "/_index_template/filebeat-8.17.0",
        "/_template/logstash",
        "/_component_template/x",
        "/_ilm/policy/filebeat",
        "/_ingest/pipeline/filebeat-nginx",
        "/_data_stream/filebeat",
        "/_alias/filebeat",
        "/filebeat-000001",
    ] {
        check("HEAD", path, 404, "");
        check("GET", path, 404, "does not exist");
        check("PUT", path, 200, r#"{"acknowledged":true}"#);
        check("DELETE", path, 405, "allowed: [GET, HEAD, POST, PUT]");
    }
    check("GET", "/_bulk", 405, "Incorrect HTTP method for uri [/_bulk] and method [GET], allowed: [POST, PUT]");
    check("POST", "/", 405, "allowed: [GET, HEAD]");
    for path in ["/logs/_search", "/_search", "/_cat/indices", "/_sql", "/a/b/c/d/e/f/g", "/logs/_doc/1"] {
        check("POST", path, 400, "only [_bulk] is supported here");
    }
    check("GET", &format!("/_{}", "x\"".repeat(10_000)), 400, "no handler found");
}

proptest! {
    /// Any bytes have a reply, in which each operation has an item.
    #[test]
    fn any_body_has_a_reply(lines in prop::collection::vec(prop_oneof![
        Just("{\"create\":{}}".to_owned()),
        Just("{\"delete\":{\"_index\":\"x\"}}".to_owned()),
        Just("{\"a\":\"b\"}".to_owned()),
        "[a-z{}\":\\[\\]1]{0,20}",
    ], 0..12)) {
        let (reply, events) = decode((lines.join("\n") + "\n").as_bytes(), "logs");
        if let Ok(reply) = reply {
            let body: Value = serde_json::from_slice(&reply.body(0)).unwrap();
            prop_assert_eq!(body["items"].as_array().unwrap().len() as u64, reply.accepted() + reply.refused());
            prop_assert_eq!(events.len() as u64, reply.accepted());
        } else {
            prop_assert!(events.is_empty());
        }
    }
}
