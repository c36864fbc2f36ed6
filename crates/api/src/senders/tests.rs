use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use bucksaw_env::sim;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};

use crate::App;
use crate::fixtures::app;
use crate::server::router;

/// Calls a route. `headers` are lines of `name: value`.
#[expect(clippy::disallowed_methods, reason = "limits calls in real time")]
async fn call(
    app: &App,
    target: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> (StatusCode, HeaderMap, String) {
    let (method, path) = target.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let call = TowerToHyperService::new(router(app.clone())).call(request.body(body.into()).unwrap());
    let answered = async {
        let response = call.await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, headers, String::from_utf8_lossy(&body).into_owned())
    };
    tokio::time::timeout(Duration::from_secs(20), answered).await.expect("the call hangs")
}

/// All records that match: labels, attributes and line.
async fn found(app: &App, q: &str) -> Vec<(Value, Value, String)> {
    let q = percent_encoding::percent_encode(q.as_bytes(), percent_encoding::NON_ALPHANUMERIC);
    let (status, _, body) = call(app, &format!("GET /api/v1/query?from=0&q={q}"), &[], "").await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let objects = body.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let records = objects.filter(|object| object.get("line").is_some());
    records
        .map(|record| {
            let line = record["line"].as_str().unwrap().to_owned();
            (record["labels"].clone(), record.get("attributes").cloned().unwrap_or_default(), line)
        })
        .collect()
}

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_protocol_stores_what_it_says_of_a_record() {
    let fs = sim::Fs::new();
    let app = app(&fs, 1);
    let loki = r#"{"streams":[{"stream":{"app":"loki"},"values":[["1700000000000000000","a",{"trace_id":"t1"}]]}]}"#;
    let otlp = r#"{"resourceLogs":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"otlp"}}]},
        "scopeLogs":[{"logRecords":[{"timeUnixNano":"1700000000000000000","severityText":"ERROR",
        "traceId":"0102030405060708090a0b0c0d0e0f10","body":{"stringValue":"b"}}]}]}]}"#;
    let bulk = "{\"index\":{\"_index\":\"elastic\",\"_id\":\"7\"}}\n{\"message\":\"c\"}\n";
    let splunk = r#"{"event":"d","host":"splunk","time":1700000000.5,"fields":{"trace_id":"t4"}}"#;
    let datadog = r#"[{"message":"e","service":"datadog","status":"warn","trace_id":"t5"}]"#;
    let gelf = r#"{"version":"1.1","host":"gelf","short_message":"f","_trace_id":"t6","level":3}"#;
    let object = r#"[{"time":1700000000,"app":"json","msg":"g","trace_id":"t7"}]"#;
    let cases = [
        (
            "POST /loki/api/v1/push",
            loki,
            204,
            "app=loki",
            json!({"app":"loki","tenant":"one"}),
            json!({"trace_id":"t1"}),
            "a",
        ),
        (
            "POST /v1/logs",
            otlp,
            200,
            "service.name=otlp",
            json!({"service.name":"otlp"}),
            json!({"severity_text":"ERROR","trace_id":"0102030405060708090a0b0c0d0e0f10"}),
            "b",
        ),
        (
            "POST /_bulk",
            bulk,
            200,
            "index=elastic",
            json!({"index":"elastic"}),
            json!({"_id":"7"}),
            r#"{"message":"c"}"#,
        ),
        (
            "POST /services/collector/event",
            splunk,
            200,
            "host.name=splunk",
            json!({"host.name":"splunk"}),
            json!({"trace_id":"t4"}),
            "d",
        ),
        (
            "POST /api/v2/logs",
            datadog,
            202,
            "service.name=datadog",
            json!({"service.name":"datadog"}),
            json!({"severity_text":"warn","trace_id":"t5"}),
            "e",
        ),
        (
            "POST /gelf",
            gelf,
            202,
            "host.name=gelf",
            json!({"host.name":"gelf"}),
            json!({"severity_text":"err","trace_id":"t6"}),
            "f",
        ),
        (
            "POST /api/v1/ingest?message_field=msg&label_fields=app",
            object,
            200,
            "app=json",
            json!({"app":"json"}),
            json!({"trace_id":"t7"}),
            "g",
        ),
    ];
    for (number, (target, body, status, q, labels, attributes, line)) in (1..).zip(cases) {
        let (answered, _, text) = call(&app, target, &[JSON, ("x-scope-orgid", "one")], body).await;
        assert_eq!(answered.as_u16(), status, "{target}: {text}");
        let want = vec![(labels, attributes, line.to_owned())];
        assert_eq!(found(&app, q).await, want, "{target}");
        // What the record says is found as a text and as a field.
        if let Some(trace_id) = want[0].1["trace_id"].as_str() {
            assert_eq!(found(&app, trace_id).await, want);
            assert_eq!(found(&app, &format!("trace_id={trace_id}")).await, want);
            assert_eq!(found(&app, &format!("_line={trace_id}")).await, []);
        }
        let (_, _, metrics) = call(&app, "GET /metrics", &[], "").await;
        assert_eq!(found(&app, "").await.len(), number, "{metrics}");
    }
    let (_, _, fields) = call(&app, "GET /api/v1/fields?from=0", &[], "").await;
    let fields: Value = serde_json::from_str(&fields).unwrap();
    let trace_id = fields["fields"].as_array().unwrap().iter().find(|field| field["name"] == "trace_id").unwrap();
    assert_eq!((&trace_id["kind"], &trace_id["records"]), (&json!("attribute"), &json!(6)));
    let (_, _, histogram) =
        call(&app, "GET /api/v1/histogram?from=0&buckets=1&by=trace_id&value=t4&value=t5", &[], "").await;
    let histogram: Value = serde_json::from_str(&histogram).unwrap();
    assert_eq!(histogram["group_values"], json!(["t4", "t5"]), "{histogram}");
    let (status, _, raw) = call(&app, "GET /api/v1/query?from=0", &[("accept", "text/plain")], "").await;
    assert_eq!(status, StatusCode::OK);
    let mut lines: Vec<&str> = raw.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a", "b", "d", "e", "f", "g", r#"{"message":"c"}"#], "raw output has values of attributes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_have_the_format_of_the_protocol() {
    let fs = sim::Fs::new();
    let app = app(&fs, 2);
    let check = async |target: &str, headers: &[(&str, &str)], body: &str, status: u16, want: &str| {
        let (answered, headers, text) = call(&app, target, headers, body.to_owned()).await;
        assert_eq!(answered.as_u16(), status, "{target}: {text}");
        assert!(text.contains(want), "{target}: {text}");
        headers
    };
    check("POST /loki/api/v1/push", &[JSON], "{", 400, "not a push request of Loki").await;
    let packed = [("content-type", "application/x-protobuf"), ("content-encoding", "gzip")];
    check("POST /loki/api/v1/push", &packed, "", 415, "snappy block").await;
    check("POST /loki/api/v1/push", &[("content-type", "application/x-protobuf")], "\u{1}", 400, "").await;
    check("POST /loki/api/v1/push?durability=never", &[JSON], "{}", 400, "durability").await;
    check("POST /v1/logs", &[JSON], "[1]", 400, r#"{"code":3,"message":"not an OTLP"#).await;
    check("POST /v1/logs", &[("content-type", "text/plain")], "", 415, "Content-Type is text/plain").await;
    let headers = check("POST /_bulk", &[], "x\n", 400, r#"{"error":{"root_cause":[{"type":"#).await;
    assert_eq!(headers["x-elastic-product"], "Elasticsearch");
    let delete = "{\"delete\":{\"_index\":\"a\",\"_id\":\"1\"}}\n";
    check("POST /elasticsearch/_bulk", &[], delete, 200, r#""errors":true"#).await;
    check("GET /", &[("accept", "application/json")], "", 200, r#""number":"8."#).await;
    check("GET /elasticsearch", &[], "", 200, r#""number":"8."#).await;
    check("GET /elasticsearch/", &[], "", 200, r#""number":"8."#).await;
    check("GET /elasticsearch/logs/_search", &[], "", 400, "no handler found").await;
    check("GET /_cluster/health", &[], "", 200, "green").await;
    check("PUT /_index_template/logs", &[], "{}", 200, "acknowledged").await;
    check("POST /services/collector", &[], "{\"event\":\"a\"}{\"event\":\"\"}", 400, r#""invalid-event-number":1"#)
        .await;
    assert_eq!(found(&app, "").await.len(), 1, "the events before an error are stored");
    check("POST /services/collector", &[], "", 400, r#""code":5"#).await;
    check("GET /services/collector/health", &[], "", 200, "HEC is healthy").await;
    check("POST /services/collector/ack", &[], "{\"acks\":[0]}", 400, r#""code":10"#).await;
    check("POST /services/collector/raw?channel=a", &[], "one\ntwo\n", 200, r#""ackId":"#).await;
    check("POST /services/collector/ack?channel=a", &[], "{\"acks\":[0]}", 200, r#"{"acks":{"0":true}}"#).await;
    check("GET /services/collector/event", &[], "", 405, "").await;
    check("GET /services/collector/other", &[], "", 404, "").await;
    let headers = check("OPTIONS /services/collector/event/1.0", &[], "", 200, "").await;
    assert_eq!(headers["allow"], "POST");
    check("POST /api/v2/logs", &[], "1", 400, r#"{"errors":[{"status":"400""#).await;
    check("GET /api/v1/validate", &[], "", 200, r#"{"valid":true}"#).await;
    check("POST /gelf", &[], "{}", 400, "\n").await;
    check("POST /api/v1/ingest", &[JSON], "[1]", 400, "no record was accepted").await;
    check("POST /api/v1/ingest", &[JSON], "{\"a\":1} 2", 200, r#""rejected":1"#).await;
    let graypy = [("content-encoding", "gzip,deflate")];
    check("POST /gelf", &graypy, "not in the zlib format", 400, "cannot be decompressed").await;
    let long = format!("[\"{}\"]", "x".repeat(17 << 20));
    check("POST /api/v1/ingest", &[JSON], &long, 413, "send it in several").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_takes_nothing_says_so_in_the_terms_of_each_protocol() {
    let fs = sim::Fs::new();
    let app = app(&fs, 3);
    fs.set_capacity(Some(0));
    let check = async |target: &str, body: &str, status: u16, want: &str| {
        let mut answered = call(&app, target, &[JSON], body.to_owned()).await;
        // The first append finds that the disk is full.
        if answered.0.is_success() {
            answered = call(&app, target, &[JSON], body.to_owned()).await;
        }
        let (code, headers, text) = answered;
        assert_eq!(code.as_u16(), status, "{target}: {text}");
        assert!(text.contains(want), "{target}: {text}");
        assert!(headers.contains_key("retry-after"), "{target}");
    };
    let loki = r#"{"streams":[{"stream":{"app":"a"},"values":[["1700000000000000000","a"]]}]}"#;
    check("POST /loki/api/v1/push", loki, 503, "disk").await;
    let otlp = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"b"}}]}]}]}"#;
    check("POST /v1/logs", otlp, 503, r#""code":14"#).await;
    check("POST /a/_bulk", "{\"create\":{}}\n{\"m\":1}\n", 429, "es_rejected_execution_exception").await;
    check("POST /services/collector", "{\"event\":\"a\"}", 503, r#""code":9"#).await;
    check("POST /api/v2/logs", "[{\"message\":\"a\"}]", 503, r#"{"errors":[{"status":"503""#).await;
    check("POST /gelf", r#"{"version":"1.1","host":"h","short_message":"f"}"#, 503, "disk").await;
    check("POST /api/v1/ingest", "{}", 503, "disk").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_with_the_same_key_is_the_same_records() {
    let fs = sim::Fs::new();
    let app = app(&fs, 4);
    let body = r#"{"streams":[{"stream":{"app":"a"},"values":[["1700000000000000000","x",{"n":"1"}]]}]}"#;
    for _ in 0..3 {
        let (status, _, text) = call(&app, "POST /loki/api/v1/push", &[JSON, ("idempotency-key", "k")], body).await;
        assert_eq!(status, StatusCode::NO_CONTENT, "{text}");
    }
    assert_eq!(found(&app, "").await.len(), 1);
    let other = body.replace("\"x\"", "\"y\"");
    let (status, _, text) = call(&app, "POST /loki/api/v1/push", &[JSON, ("idempotency-key", "k")], other).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{text}");
}
