//! Errors: a status, and `{"error": "…"}` with cause and position.

use crate::client::encode;
use crate::node::TestServer;

#[test]
fn invalid_bodies_are_refused() {
    let node = TestServer::start(&[]);
    let check = |parameters: &str, headers: &[(&str, &str)], body: &[u8], status: u16, want: &str| {
        let answer = node.post(&format!("/api/v1/ingest{parameters}"), headers, body).expect(status).json();
        let error = answer["error"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(error.contains(want), "{parameters} {headers:?}: {error}");
    };
    check(
        "",
        &[("Content-Encoding", "br")],
        b"x",
        415,
        "Content-Encoding br is not known: gzip, deflate, zstd and snappy are",
    );
    for encoding in ["gzip", "zstd", "snappy"] {
        check("", &[("Content-Encoding", encoding)], b"nonsense", 400, "the body cannot be decompressed");
    }
    check("", &[("Content-Type", "image/png")], b"x", 415, "Content-Type image/png is not known");
    check(
        "",
        &[("Content-Type", "application/x-ndjson")],
        b"x",
        400,
        "no record was accepted: line 1: not a JSON object",
    );
    check("?durability=slow", &[], b"x", 400, "durability is fast, durable or bulk, not `slow`");
    check("?labels=a=b", &[], b"x", 400, "unknown parameter `labels`: this call takes durability, label");
    check("?label=a", &[], b"x", 400, "label: `a` is not k=v");
    check("?label=9=b", &[], b"x", 400, "label: label name `9`");
    check("?label=a=b&label=a=c", &[], b"x", 400, "label: label `a` is given twice");
    check("?label=a=%ff", &[], b"x", 400, "label: not UTF-8");
    check(&format!("?label=a={}", "b".repeat(1_025)), &[], b"x", 400, "label: label `a` is too long");
    let many: String = (0..65).map(|number| format!("&label=l{number}=x")).collect();
    check(&many.replacen('&', "?", 1), &[], b"x", 400, "label: more than 64 labels");
    check("", &[("Idempotency-Key", &"k".repeat(257))], b"x", 400, "Idempotency-Key is longer than 256 bytes");
    assert_eq!(node.count(""), 0);
}

#[test]
fn invalid_queries_are_refused() {
    let node = TestServer::start(&[]);
    node.post("/api/v1/ingest", &[], b"a\n").expect(200);
    let check = |target: &str, status: u16, want: &str| {
        let answer = node.get(&format!("/api/v1/{target}")).expect(status).json();
        let error = answer["error"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(error.contains(want), "{target}: {error}");
    };
    // An invalid filter is refused by every call.
    for call in ["query", "count", "histogram", "fields", "tail"] {
        let filter = |filter: &str, want: &str| check(&format!("{call}?q={}", encode(filter)), 400, want);
        filter("a AND", "column 6: expected something to match after `AND`");
        filter("(a", "column 3: expected ");
        filter("level=", "column 7: expected a value after `level=`");
        filter("status>=high", "column 9: expected a number, a duration such as `10ms` or a size such as `1MB` after");
        filter("/(/", "the regex /(/ is wrong in its column 1: unclosed group");
        filter("path=~/[/", "the regex /[/ is wrong in its column 1");
        filter("/(a{1000}){1000}/", "is too large");
        filter("\"a", "column 3: expected `\"` to close the quote in column 1");
        check(&format!("{call}?Q=a"), 400, "unknown parameter `Q`: this call takes q");
    }
    for call in ["query", "count", "histogram", "fields", "labels", "streams"] {
        check(&format!("{call}?from=soon"), 400, "from: expected a time such as");
        check(&format!("{call}?to=soon"), 400, "to: expected a time such as");
        check(&format!("{call}?from=5m&to=10m"), 400, "from is later than to");
        check(&format!("{call}?tz=Mars"), 400, "tz: expected a time zone such as");
    }
    check("query?order=up", 400, "order is asc or desc, not `up`");
    check("query?limit=-1", 400, "parameter `limit` is not a whole number");
    check("query?format=xml", 400, "format is raw or json, not `xml`");
    check("count?limit=1", 400, "unknown parameter `limit`: this call takes q, from, to");
    check("histogram?buckets=0", 400, "buckets is from 1 to 10000");
    check("histogram?buckets=10001", 400, "buckets is from 1 to 10000");
    check("histogram?value=app", 400, "value needs by");
    check("histogram?by=@level&value=loud", 400, "value: `loud` is no level; the levels are trace, debug,");
    check("histogram?by=@stream&value=app", 400, "value: label `app` has no `=`");
    let many: String = (0..21).map(|number| format!("&value={number}")).collect();
    check(&format!("histogram?by=a{many}"), 400, "value is given more than 20 times");
    check("streams?limit=10001", 400, "limit is at most 10000");
    for call in ["labels", "streams"] {
        check(&format!("{call}?q=(app%3Da"), 400, "column 7: expected ");
        check(&format!("{call}?Q=a"), 400, "unknown parameter `Q`: this call takes q");
    }
    check("query?after=nonsense", 400, "after: invalid id");
    check("tail?rate=fast", 400, "parameter `rate` is not a whole number");
    check("context", 400, "parameter `id` is missing");
    check("context?id=nonsense", 400, "id: invalid id");
    check("context?id=00000000000000000000000000", 404, "there is no record 00000000000000000000000000");
    let answer = node.post("/api/v1/query", &[("Content-Type", "text/plain")], b"q=a").expect(415).json();
    assert!(answer["error"].as_str().unwrap().starts_with("a body must be a form"), "{answer}");
}

#[test]
fn unknown_calls_are_refused() {
    let node = TestServer::start(&[]);
    let check = |method: &str, target: &str, status: u16| {
        let answer = node.call(method, target, &[], b"").expect(status);
        assert!(answer.json()["error"].is_string(), "{method} {target}");
    };
    for target in ["/nothing", "/nodes/", "/index.html", "/api/v1/nothing", "/api/v2/query", "/api/v1/query/", "/-/"] {
        check("GET", target, 404);
        check("POST", target, 404);
    }
    check("GET", "/assets/nothing.js", 404);
    check("GET", "/assets/../index.html", 404);
    for (method, target) in [
        ("GET", "/api/v1/ingest"),
        ("DELETE", "/api/v1/query"),
        ("PUT", "/api/v1/count"),
        ("POST", "/api/v1/tail"),
        ("POST", "/api/v1/context"),
        ("POST", "/api/v1/cluster"),
        ("POST", "/metrics"),
        ("POST", "/-/healthy"),
        ("POST", "/"),
        ("DELETE", "/nodes"),
        ("POST", "/api/v1/history"),
    ] {
        check(method, target, 405);
    }
}
