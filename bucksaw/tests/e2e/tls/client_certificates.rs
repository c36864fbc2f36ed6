//! Clients that must show a certificate.

use super::authority::TestAuthority;
use crate::node::{TestServer, bucksaw, run};

#[test]
fn a_node_may_require_client_certificates() {
    let (authority, foreign_ca) = (TestAuthority::with_node(), TestAuthority::new());
    authority.make(&["client", "agent-7"]);
    foreign_ca.make(&["client", "agent-7"]);
    let ca = authority.file("ca.pem");
    let node = authority.node(&["--tls-client-ca", &ca, "--tls-min-version", "1.3", "--listen", "0.0.0.0:0"]);
    let said = |arguments: &[&str]| {
        let output = run(&mut bucksaw(arguments), b"a line\n");
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let url = format!("https://127.0.0.1:{}", node.address("http").rsplit_once(':').unwrap().1);
    let query = ["query", "--addr", &url, "--ca", &ca];
    let (status, text) = said(&query);
    assert!(text.contains("it requires a client certificate: give --cert and --key"), "{text}");
    assert_eq!((status, text.lines().count()), (Some(2), 1), "{text}");
    let with =
        |by: &TestAuthority| ["--cert".to_owned(), by.file("agent-7.pem"), "--key".to_owned(), by.file("agent-7.key")];
    let (own, foreign) = (with(&authority), with(&foreign_ca));
    let (own, foreign) = (own.each_ref().map(String::as_str), foreign.each_ref().map(String::as_str));
    let (_, text) = said(&[&query, &foreign[..]].concat());
    assert!(text.contains("it refuses the client certificate of --cert"), "{text}");
    let forward = ["forward", "--to", node.address("durable"), "--ca", &ca];
    let (status, text) = said(&[&forward, &own[..]].concat());
    assert_eq!(status, Some(0), "{text}");
    let (status, text) = said(&[&query, &own[..]].concat());
    assert_eq!((status, text.as_str()), (Some(0), "a line\n"));
    // A key of another certificate.
    let (_, text) = said(&[&query, &own[..3], &[foreign[3]]].concat());
    assert!(text.contains("the key does not belong to the certificate"), "{text}");
    let (status, text) = said(&[&query, &own[..2]].concat());
    assert!(text.contains("--cert needs --key") && status == Some(2), "{text}");
}

#[test]
fn unusable_files_are_refused_at_the_start() {
    let authority = TestAuthority::with_node();
    let (certificate, key, ca_key) =
        (authority.file("127.0.0.1.pem"), authority.file("127.0.0.1.key"), authority.file("ca.key"));
    let dir = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], want: &str| {
        let Err((_, log)) = TestServer::try_start_in(dir.path(), arguments) else { panic!("{arguments:?}") };
        let error = log.lines().find(|line| line.starts_with("bucksaw: ")).unwrap_or_default();
        assert!(error.contains(want), "{log}");
    };
    refused(&["--tls-cert", &certificate], "--tls-cert needs --tls-key");
    refused(&["--tls-key", &key], "--tls-key needs --tls-cert");
    refused(&["--tls-client-ca", &certificate], "--tls-client-ca needs --tls-cert");
    refused(&["--tls-cert", &certificate, "--tls-key", &ca_key], "the key does not belong to the certificate");
    refused(&["--tls-cert", &key, "--tls-key", &key], "has no certificate in PEM format");
    refused(&["--tls-cert", &certificate, "--tls-key", &certificate], "has no private key in PEM format");
    refused(&["--tls-cert", "/nowhere.pem", "--tls-key", &key], "/nowhere.pem: the file does not exist");
}
