//! What a client says when it cannot trust a node, or the node does not speak TLS.

use std::fs;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};

use super::authority::TestAuthority;
use crate::child_process::ChildProcess;
use crate::node::{TestServer, bucksaw, run};

/// The one line that `query` prints.
fn query_error(arguments: &[&str]) -> String {
    let output = run(bucksaw(["query"]).args(arguments), b"");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    said
}

/// The reason of the first warning of an agent that cannot connect.
fn forward_error(arguments: &[&str]) -> String {
    let mut agent = ChildProcess::start(bucksaw(["forward", "--to"]).args(arguments));
    loop {
        let line = agent.stderr_line();
        if line.contains("no connection to the node") {
            return line;
        }
    }
}

#[test]
fn untrusted_certificates_are_explained() {
    let (authority, foreign_ca) = (TestAuthority::with_node(), TestAuthority::new());
    let node = authority.node(&[]);
    let (http, fast) = (node.address("http"), node.address("fast"));
    let (url, other_name) = (format!("https://{http}"), http.replace("127.0.0.1", "localhost"));
    let (ca, other_ca) = (authority.file("ca.pem"), foreign_ca.file("ca.pem"));
    let check = |said: String, want: &str| assert!(said.contains(want), "{said}");
    let unknown = "its certificate was not signed by a CA that is trusted here";
    check(query_error(&["--addr", &url, "--ca", &other_ca]), unknown);
    check(forward_error(&[fast, "--ca", &other_ca]), unknown);
    let wrong = "its certificate is not for this name, but for 127.0.0.1";
    check(query_error(&["--addr", &format!("https://{other_name}"), "--ca", &ca]), wrong);
    check(forward_error(&[&fast.replace("127.0.0.1", "localhost"), "--ca", &ca]), wrong);
    // Without TLS, and with a CA for an address without it.
    check(query_error(&["--addr", &format!("http://{http}")]), "this port speaks TLS: use https://");
    check(query_error(&["--addr", &format!("http://{http}"), "--ca", &ca]), "give https://");
    check(query_error(&["--addr", &url, "--ca", "/nowhere"]), "/nowhere: the file does not exist");
}

#[test]
fn an_expired_certificate_is_explained() {
    let authority = TestAuthority::new();
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2020, 2, 1));
    let ca_key = KeyPair::from_pem(&fs::read_to_string(authority.path("ca.key")).unwrap()).unwrap();
    let ca = fs::read_to_string(authority.path("ca.pem")).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &Issuer::from_ca_cert_pem(&ca, ca_key).unwrap()).unwrap();
    fs::write(authority.path("127.0.0.1.pem"), certificate.pem()).unwrap();
    fs::write(authority.path("127.0.0.1.key"), key.serialize_pem()).unwrap();
    let node = authority.node(&[]);
    assert!(node.log().contains("the certificate expires soon or has expired"), "{}", node.log());
    let (url, ca) = (format!("https://{}", node.address("http")), authority.file("ca.pem"));
    let said = query_error(&["--addr", &url, "--ca", &ca]);
    assert!(said.contains("its certificate expired") && said.contains("days ago: renew it there"), "{said}");
}

#[test]
fn a_self_signed_ca_as_certificate_is_explained() {
    let authority = TestAuthority::new();
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    fs::write(authority.path("127.0.0.1.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(authority.path("127.0.0.1.key"), key.serialize_pem()).unwrap();
    let node = authority.node(&[]);
    let url = format!("https://{}", node.address("http"));
    let said = query_error(&["--addr", &url, "--ca", &authority.file("127.0.0.1.pem")]);
    assert!(said.contains("is that of a CA") && said.contains("bucksaw certs node"), "{said}");
}

#[test]
fn tls_to_a_port_without_it_is_explained_and_stores_nothing() {
    let (authority, node) = (TestAuthority::new(), TestServer::start(&[]));
    let (http, ca) = (node.address("http"), authority.file("ca.pem"));
    let said = query_error(&["--addr", &format!("https://{http}"), "--ca", &ca]);
    assert!(said.contains("it does not speak TLS at this port"), "{said}");
    for listener in ["fast", "durable"] {
        let said = forward_error(&[node.address(listener), "--ca", &ca]);
        assert!(said.contains("it closed the connection during the TLS handshake"), "{said}");
    }
    assert_eq!(node.count(""), 0);
    assert!(node.metric("bucksaw_sources_tls_refused_total") >= 2.0);
}
