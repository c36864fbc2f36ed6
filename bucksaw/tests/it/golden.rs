//! The help of every command equals its golden file. `UPDATE=1 cargo test -p bucksaw` rewrites the files.
#![allow(clippy::disallowed_methods, reason = "reads documents of the project")]

use std::path::Path;

use crate::process::{bucksaw, run};

#[test]
fn help() {
    let commands = [
        "",
        "serve",
        "forward",
        "import",
        "query",
        "tail",
        "context",
        "fields",
        "labels",
        "histogram",
        "generate",
        "status",
        "plan",
        "forget",
        "erase",
        "verify",
        "token",
        "token add",
        "token list",
        "token revoke",
        "certs",
        "config",
        "config check",
        "config show",
        "completions",
        "man",
    ];
    for command in commands {
        let name = format!("bucksaw {command}").trim_end().to_owned();
        let mut text = String::new();
        for flag in ["-h", "--help"] {
            let run = run(&mut bucksaw(command.split_whitespace().chain([flag])));
            assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{name} {flag}");
            text.push_str(&format!("$ {name} {flag}\n{}\n", run.text()));
        }
        check(&format!("{}.txt", name.replace(' ', "-")), text.trim_end());
    }
}

fn check(name: &str, have: &str) {
    let have = format!("{have}\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE").is_some() {
        #[expect(clippy::disallowed_methods, reason = "golden files are not files of a node")]
        std::fs::write(&path, &have).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(have == want, "{name} has changed; if that is intended, run `UPDATE=1 cargo test -p bucksaw`\n{have}");
}
