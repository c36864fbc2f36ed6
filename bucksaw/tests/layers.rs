//! The graph of crates: a crate uses only crates of lower levels, and siblings do not use each other. ARCHITECTURE.md has the
//! same table. `tests/conventions` tests the modules inside a crate.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "reads the manifests of the project itself; a test fails by a panic"
)]

use std::collections::BTreeMap;
use std::path::Path;

/// The level of each crate, as in ARCHITECTURE.md; `env` is the ground.
const LEVELS: [(&str, u32); 34] = [
    ("bucksaw", 7),
    ("node", 6),
    ("api", 6),
    ("forward", 6),
    ("kafka", 6),
    ("query", 5),
    ("sources", 5),
    ("clickhouse", 5),
    ("ingest", 4),
    ("store", 4),
    ("cluster", 3),
    ("oidc", 2),
    ("kubernetes", 2),
    ("scan", 2),
    ("wire", 2),
    ("auth", 1),
    ("crypt", 1),
    ("tls", 1),
    ("segment", 1),
    ("buffer", 1),
    ("tailer", 1),
    ("protocols", 1),
    ("rpc", 1),
    ("steering", 1),
    ("capacity", 1),
    ("binary", 0),
    ("columns", 0),
    ("record", 0),
    ("search", 0),
    ("generate", 0),
    ("model", 0),
    ("page", 0),
    ("fixtures", 0),
    ("env", 0),
];

/// Crates of one level of which the first uses the second, with the reason.
const SIBLINGS_ALLOWED: [(&str, &str); 3] = [
    // The encoded tree of columns.
    ("columns", "binary"),
    // The codec implements the interface of a search.
    ("columns", "search"),
    // The store consumes the queue.
    ("store", "ingest"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn manifest(dir: &Path) -> toml::Table {
    std::fs::read_to_string(dir.join("Cargo.toml")).unwrap().parse().unwrap()
}

/// The crates by short name, each with those of the workspace that it depends on outside of tests.
fn crates() -> BTreeMap<String, Vec<String>> {
    let dirs = std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let dirs = dirs.chain([root().join("bucksaw")]);
    dirs.map(|dir| {
        let manifest = manifest(&dir);
        let name = manifest["package"]["name"].as_str().unwrap();
        let used = manifest.get("dependencies").and_then(toml::Value::as_table).into_iter().flatten();
        let used = used.filter_map(|(name, _)| name.strip_prefix("bucksaw-").map(str::to_owned)).collect();
        (name.strip_prefix("bucksaw-").unwrap_or(name).to_owned(), used)
    })
    .collect()
}

fn level(name: &str) -> u32 {
    LEVELS.iter().find(|(crate_name, _)| *crate_name == name).unwrap_or_else(|| panic!("{name} has no level")).1
}

#[test]
fn crates_use_only_those_below() {
    let crates = crates();
    assert_eq!(crates.len(), LEVELS.len());
    for (name, used) in crates {
        for other in used {
            let sibling = SIBLINGS_ALLOWED.contains(&(name.as_str(), other.as_str()));
            assert!(level(&other) < level(&name) || sibling, "{name} must not use {other}");
        }
    }
}

#[test]
fn architecture_names_every_crate_with_its_level() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for (name, level) in LEVELS {
        let row = if name == "env" { "| ground | `env` |".to_owned() } else { format!("| {level} | `{name}` |") };
        assert!(text.contains(&row), "ARCHITECTURE.md has no row {row}");
    }
    let rows = text.lines().filter(|line| line.starts_with("| ") && line.matches(" | `").count() == 1).count();
    assert!(rows >= LEVELS.len());
}
