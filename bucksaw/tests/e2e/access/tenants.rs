//! Two tenants, from their senders to their queries.

use std::fs;
use std::io::Write as _;

use super::auth_node::AuthNode;
use crate::node::bucksaw;
use crate::wait::wait_until;

#[test]
fn two_tenants_write_and_read_by_the_program_and_find_only_their_own() {
    let tokens: [(&str, &[&str]); 3] = [
        ("a", &["--scope", "ingest,read", "--label", "tenant=a"]),
        ("b", &["--scope", "ingest,read", "--label", "tenant=b"]),
        ("admin", &["--scope", "admin,read"]),
    ];
    let node = AuthNode::start(&[], &tokens);
    for name in ["a", "b"] {
        let file = node.token_file(name);
        let lines = format!("record of {name}\nsecond of {name}\n");
        let shipped = node.server.forward(
            "fast",
            &["--token-file", file.to_str().unwrap(), "--label", "app=x"],
            lines.as_bytes(),
        );
        assert!(shipped.status.success(), "{shipped:?}");
    }
    let said = |name: &str, arguments: &[&str]| {
        let (command, rest) = arguments.split_first().unwrap();
        let mut run = bucksaw([*command, "--addr", node.server.url().as_str(), "--token-file"]);
        let run = run.arg(node.token_file(name)).args(rest).output().unwrap();
        (run.status.code(), String::from_utf8(run.stdout).unwrap() + &String::from_utf8(run.stderr).unwrap())
    };
    assert_eq!(said("a", &["query", "-c"]), (Some(0), "2\n".to_owned()));
    let (_, found) = said("b", &["query", "of"]);
    assert!(found.contains("record of b") && !found.contains("of a"), "{found}");
    for command in ["fields", "labels", "histogram"] {
        let (code, shown) = said("a", &[command, "-o", "json"]);
        assert!(code == Some(0) && !shown.contains("\"b\""), "{command}: {shown}");
    }
    assert_eq!(said("a", &["query", "tenant=b"]).0, Some(1), "nothing is found");
    let (code, refused) = said("a", &["status"]);
    assert!(code == Some(1) && refused.contains("403"), "{refused}");
    let (code, shown) = said("admin", &["status"]);
    assert!(code == Some(0) && shown.contains("all well"), "{shown}");
    let unauthorised = node.server.cli(&["query"]);
    let refused = String::from_utf8(unauthorised.stderr).unwrap();
    assert!(refused.contains("--token-file or BUCKSAW_TOKEN") && refused.contains("401"), "{refused}");
    // The audit trail names the clients, and no token.
    let trail = || said("admin", &["query", "_bucksaw=audit"]).1;
    wait_until("the trail has the client", || trail().contains("\"who\":\"a\""));
    assert!(!trail().contains("bks_"), "{}", trail());
    assert_eq!(said("a", &["query", "_bucksaw=audit"]).0, Some(1));
    // It has what is no request, too.
    let mut lines = node.connect("fast");
    let _ = lines.write_all(b"#token bks_unknown\nline\n");
    wait_until("the trail has the refused connection", || {
        let (_, found) = said("admin", &["query", "_bucksaw=audit action=connect listener=fast reason=unknown"]);
        found.contains("\"client\":\"127.1.")
    });
    node.revoke("a");
    let valid = fs::read(node.auth_file()).unwrap();
    fs::write(node.auth_file(), "[[token]]\n").unwrap();
    wait_until("the status names the file", || {
        said("admin", &["status"]).1.contains("cannot use the changed auth file")
    });
    fs::write(node.auth_file(), valid).unwrap();
    wait_until("all is well", || said("admin", &["status"]).1.contains("all well"));
    let (_, reloads) = said("admin", &["query", "_bucksaw=audit action=reload"]);
    assert_eq!(reloads.matches("\"outcome\":\"failed\"").count(), 1, "{reloads}");
    assert_eq!(reloads.matches("\"outcome\":\"allowed\"").count(), 2, "{reloads}");
    assert_eq!(said("a", &["query", "-c"]).0, Some(2));
    assert!(!node.server.log().contains("bks_"), "no token is logged");
}
