//! Erasures by credentials: a tenant's administrator erases its own records only, and the audit trail has the request.

use super::auth_node::AuthNode;

#[test]
fn a_tenant_erases_its_own_records_only() {
    let tenant = |name: &'static str| ["--scope", "admin,read,ingest", "--label", name];
    let (a, b) = (tenant("tenant=a"), tenant("tenant=b"));
    let node = AuthNode::start(&["--audit"], &[("a", &a), ("b", &b), ("operator", &["--scope", "admin,read"])]);
    let call = |method: &str, path: &str, name: &str, body: &str| {
        let headers: &[&str] = if body.is_empty() { &[] } else { &["Content-Type: text/plain"] };
        node.call("http", method, path, Some(&node.token(name)), headers, body)
    };
    for name in ["a", "b"] {
        let (status, text) =
            call("POST", "/api/v1/ingest?durability=durable", name, "a secret of ours\nanother line\n");
        assert_eq!(status, 200, "{text}");
    }
    let count = |name: &str, q: &str| {
        let (status, text) = call("GET", &format!("/api/v1/count?q={q}"), name, "");
        assert_eq!(status, 200, "{text}");
        serde_json::from_str::<serde_json::Value>(&text[text.find('{').unwrap()..]).unwrap()["count"].as_u64().unwrap()
    };
    assert_eq!((count("a", "secret"), count("b", "secret")), (1, 1));
    let (status, text) = call("POST", "/api/v1/erase?q=secret", "a", "");
    assert!(status == 200 && text.contains("\"labels\":\"tenant=a\""), "{status} {text}");
    assert_eq!((count("a", "secret"), count("b", "secret")), (0, 1));
    assert_eq!((count("a", "line"), count("b", "line")), (1, 1));
    let listed = |name: &str| call("GET", "/api/v1/erasures", name, "").1.contains("\"q\":\"secret\"");
    assert_eq!(["a", "b", "operator"].map(listed), [true, false, true]);
    let (status, text) = call("POST", "/api/v1/erase?q=_bucksaw=audit", "operator", "");
    assert_eq!(status, 200, "{text}");
    assert!(count("operator", "_bucksaw=audit%20action=erase") > 0, "the audit trail is not erased");
}
