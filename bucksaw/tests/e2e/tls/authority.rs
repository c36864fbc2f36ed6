//! A directory of `bucksaw certs`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use tempfile::TempDir;

use crate::node::{TestServer, bucksaw, run};

/// A CA and the certificates that it has signed.
pub(crate) struct TestAuthority(TempDir);

impl TestAuthority {
    /// A new CA.
    pub(crate) fn new() -> Self {
        let authority = Self(tempfile::tempdir().unwrap());
        authority.make(&["ca"]);
        authority
    }

    /// A new CA with a certificate for nodes on this machine, in `127.0.0.1.pem`.
    pub(crate) fn with_node() -> Self {
        let authority = Self::new();
        authority.make(&["node", "127.0.0.1"]);
        authority
    }

    /// Runs `certs`.
    pub(crate) fn certs(&self, arguments: &[&str]) -> Output {
        run(bucksaw(["certs", "--dir"]).arg(self.0.path()).args(arguments), b"")
    }

    /// Runs `certs`, which must succeed.
    pub(crate) fn make(&self, arguments: &[&str]) {
        let output = self.certs(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// A file of the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The same as a text.
    pub(crate) fn file(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A node with the certificate for this machine.
    pub(crate) fn node(&self, arguments: &[&str]) -> TestServer {
        let (certificate, key) = (self.file("127.0.0.1.pem"), self.file("127.0.0.1.key"));
        let tls = ["--tls-cert", &certificate, "--tls-key", &key];
        TestServer::start(&[&tls, arguments].concat())
    }

    /// Runs a command that calls this node over TLS.
    pub(crate) fn cli(&self, node: &TestServer, arguments: &[&str]) -> Output {
        let (command, rest) = arguments.split_first().unwrap();
        let (url, ca) = (format!("https://{}", node.address("http")), self.file("ca.pem"));
        run(bucksaw([command, "--addr", &url, "--ca", &ca]).args(rest), b"")
    }

    /// The number of records of a node that match.
    pub(crate) fn count(&self, node: &TestServer, expression: &str) -> u64 {
        let output = self.cli(node, &["query", "-c", "--from", "2020-01-01", expression]);
        let shown = String::from_utf8(output.stdout).unwrap();
        shown.trim().parse().unwrap_or_else(|_| panic!("{shown}{}", String::from_utf8_lossy(&output.stderr)))
    }

    /// The value of a metric, by the start of its line.
    pub(crate) fn metric(&self, node: &TestServer, name: &str) -> f64 {
        let text = super::connection::request(node.address("http"), &self.path("ca.pem"), "/metrics");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or_else(|| panic!("there is no {name} in {text}"))
    }
}

#[test]
fn private_files_are_private_and_never_replaced() {
    let authority = TestAuthority::with_node();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for name in ["ca.key", "ca.pem", "127.0.0.1.key", "127.0.0.1.pem"] {
        assert_eq!(mode(&authority.path(name)), 0o600, "{name}");
    }
    let before = fs::read(authority.path("ca.key")).unwrap();
    for arguments in [&["ca"][..], &["node", "127.0.0.1"]] {
        let refused = authority.certs(arguments);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("certs replaces nothing"), "{said}");
    }
    assert_eq!(fs::read(authority.path("ca.key")).unwrap(), before);
    let without_ca = tempfile::tempdir().unwrap();
    let refused = run(bucksaw(["certs", "client", "a", "--dir"]).arg(without_ca.path()), b"");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("make a CA with 'bucksaw certs ca'"), "{said}");
    assert_eq!(authority.certs(&["node"]).status.code(), Some(2));
}
