//! Every other port × no credential, a wrong one, an expired one, one without the scope.

use std::io::{Read as _, Write as _};

use super::auth_node::AuthNode;
use crate::node::{bucksaw, run};
use crate::wait::wait_until;

const TOKENS: [(&str, &[&str]); 5] = [
    ("reader", &["--scope", "read"]),
    ("writer", &["--scope", "ingest", "--label", "tenant=a"]),
    ("several", &["--scope", "ingest", "--tenant", "a,b"]),
    ("expired", &["--scope", "ingest", "--expires", "2020-01-01T00:00:00Z"]),
    ("admin", &["--scope", "admin"]),
];

/// The listeners of a node besides HTTP, gRPC and OTLP over HTTP, which have tables of their own.
const LISTENERS: [&str; 6] = ["fast", "durable", "bulk", "syslog", "gelf", "fluent"];

#[test]
fn each_port_closes_connections_without_the_right_credential() {
    let off: Vec<String> = ["syslog", "gelf", "fluent"].iter().map(|name| format!("--listen-{name}")).collect();
    let mut arguments: Vec<&str> = off.iter().flat_map(|flag| [flag.as_str(), "127.0.0.1:0"]).collect();
    arguments.extend(["--listen-otlp", "127.0.0.1:0", "--listen-otlp-http", "127.0.0.1:0"]);
    let node = AuthNode::start(&arguments, &TOKENS);
    let names: Vec<String> = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(
        &std::fs::read(node.server.dir().join("addresses.json")).unwrap(),
    )
    .unwrap()
    .into_iter()
    .map(|(name, _)| name)
    .collect();
    let others = ["http", "otlp", "otlp-http", "cluster"];
    let known: Vec<&String> = names.iter().filter(|name| !others.contains(&name.as_str())).collect();
    assert_eq!(known.len(), LISTENERS.len(), "a new listener needs a check here: {names:?}");
    let refused = |listener: &str, first: &str| {
        let mut stream = node.connect(listener);
        stream.write_all(format!("{first}secret record\n").as_bytes()).unwrap();
        // The node closes it, perhaps by a reset, or the client ends its half.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    };
    for listener in LISTENERS {
        refused(listener, "");
        for token in ["reader", "expired", "several", "admin"] {
            refused(listener, &format!("#token {}\n", node.token(token)));
        }
        refused(listener, "#token bks_wrong\n#labels app=x\n");
    }
    // The right token, so that the test would see a record that was stored before.
    let mut stream = node.connect("fast");
    stream.write_all(format!("#token {}\n#labels app=x,tenant=b\nrecord\n", node.token("writer")).as_bytes()).unwrap();
    drop(stream);
    wait_until("the record is found", || node.count(&node.token("reader"), &[]) > 0);
    assert_eq!(node.count(&node.token("reader"), &[]), 1);
    assert_eq!(node.count(&node.token("reader"), &["X-Scope-OrgID: a"]), 1, "the credential wins");
    let metrics = node.call("http", "GET", "/metrics", Some(&node.token("admin")), &[], "").1;
    for listener in LISTENERS {
        let series = format!("bucksaw_auth_refused_total{{listener=\"{listener}\",reason=\"missing\"}}");
        assert!(metrics.contains(&series), "{series}");
    }
}

#[test]
fn agents_present_their_token() {
    let node = AuthNode::start(&[], &TOKENS);
    let file = node.token_file("writer");
    let shipped =
        node.server.forward("durable", &["--token-file", file.to_str().unwrap(), "--label", "tenant=b"], b"one\ntwo\n");
    assert!(shipped.status.success(), "{shipped:?}");
    let to = format!("http://{}", node.server.address("http"));
    let generated = run(
        bucksaw(["generate", "--count", "3", "--rate", "0", "--to", to.as_str()])
            .env("BUCKSAW_TOKEN", node.token("writer")),
        b"",
    );
    assert!(generated.status.success(), "{generated:?}");
    let framed = format!("bucksaw://{}", node.server.address("fast"));
    let generated = run(
        bucksaw(["generate", "--count", "4", "--rate", "0", "--to", framed.as_str()])
            .env("BUCKSAW_TOKEN", node.token("writer")),
        b"",
    );
    assert!(generated.status.success(), "{generated:?}");
    assert_eq!(node.count(&node.token("reader"), &["X-Scope-OrgID: a"]), 9);
    assert_eq!(node.count(&node.token("reader"), &["X-Scope-OrgID: b"]), 0);
}

#[test]
fn a_token_line_is_no_record_on_a_node_without_an_auth_file() {
    let node = crate::node::TestServer::start(&[]);
    let mut stream = node.connect("fast");
    stream.write_all(b"#token bks_secret\n#labels app=x\nrecord\n").unwrap();
    drop(stream);
    wait_until("the record is found", || node.count("") == 1);
    assert_eq!((node.count("app=x"), node.count("bks_secret")), (1, 0));
    // An agent with a token ships to it, too.
    let shipped = run(bucksaw(["forward", "--to", node.address("fast")]).env("BUCKSAW_TOKEN", "bks_secret"), b"two\n");
    assert!(shipped.status.success(), "{shipped:?}");
}
