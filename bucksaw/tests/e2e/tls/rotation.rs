//! Certificates that change under load.

use std::fs;

use super::authority::TestAuthority;
use super::connection::TlsConnection;
use crate::child_process::ChildProcess;
use crate::node::bucksaw;
use crate::wait::wait_until;

#[test]
fn a_certificate_changes_under_load_without_a_lost_acknowledgement() {
    let authority = TestAuthority::with_node();
    let (ca, node) = (authority.file("ca.pem"), authority.node(&[]));
    let (https, framed) =
        (format!("https://{}", node.address("http")), format!("bucksaw://{}", node.address("durable")));
    let load = |target: &str, label: &str| {
        let arguments = ["generate", "--rate", "20000", "--count", "80000", "--to", target, "--ca", &ca];
        ChildProcess::start(bucksaw(arguments).args(["--label", label, "--durability", "durable"]))
    };
    let loads = [load(&https, "by=http"), load(&framed, "by=forward")];
    let certificate = || TlsConnection::open(node.address("fast"), &authority.path("ca.pem"), &[]).certificate();
    let reloads = |name: &str| authority.metric(&node, &format!("bucksaw_tls_certificate_reloads{name}_total "));
    let paths = ["127.0.0.1.pem", "127.0.0.1.key"].map(|name| authority.path(name));
    let mut before = certificate();
    for done in 1..=2 {
        // The key and the certificate change one after the other, as with most tools.
        paths.iter().for_each(|path| fs::remove_file(path).unwrap());
        authority.make(&["node", "127.0.0.1"]);
        wait_until("the new certificate is in use", || reloads("") >= f64::from(done));
        let after = certificate();
        assert_ne!(before, after);
        before = after;
    }
    fs::write(&paths[0], "no certificate").unwrap();
    wait_until("the broken file is reported", || reloads("_failed") >= 1.0);
    assert_eq!(certificate(), before, "the last good one stays in use");
    assert!(node.log().contains("the previous certificate stays in use"), "{}", node.log());
    for load in loads {
        let (status, _, said) = load.wait_with_output();
        assert!(status.success(), "{said}");
    }
    for label in ["by=http", "by=forward"] {
        assert_eq!(authority.count(&node, label), 80_000, "{label}");
    }
}
