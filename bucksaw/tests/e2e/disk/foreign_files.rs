//! Foreign files in the data directory are kept, whatever their names.

use std::fs;
use std::path::{Path, PathBuf};

use crate::node::TestServer;

/// Names in `queue/`, `store/` and `store/trash/`; those with a slash are directories.
const FOREIGN_NAMES: [&str; 14] = [
    "notes.txt",
    "x.pending",
    "x.active",
    "x.committed",
    "x.seg",
    "x.tmp",
    ".hidden",
    "20261120T231000123Z-20261120T231013001Z-x.seg",
    "20261120T231000123Z.seg",
    "no-extension",
    "two.dots.seg",
    "a directory.seg/",
    "01KAJ3M3Q00000000000000000.pending/",
    "20261120T231000123Z-20261120T231013001Z-01KAJ3M3Q00000000000000000.seg/",
];

fn make(dir: &Path) -> Vec<PathBuf> {
    let path = |name: &&str| {
        let path = dir.join(name.trim_end_matches('/'));
        if name.ends_with('/') {
            fs::create_dir(&path).unwrap();
            fs::write(path.join("inside"), "kept").unwrap();
            path.join("inside")
        } else {
            fs::write(&path, "kept").unwrap();
            path
        }
    };
    FOREIGN_NAMES.iter().map(path).collect()
}

#[test]
fn foreign_files_are_kept() {
    let mut node = TestServer::start(&["--segment-max-age", "100ms", "--retention-age", "7d", "--trash-age", "1s"]);
    node.post("/api/v1/ingest?label=run=1", &[], b"one\n").expect(200);
    assert!(node.terminate().success());
    let dirs = ["queue", "store", "store/trash"].map(|name| node.dir().join(name));
    let foreign_files: Vec<PathBuf> = dirs.iter().flat_map(|dir| make(dir)).collect();
    for run in 2..5 {
        node.restart();
        node.post(&format!("/api/v1/ingest?label=run={run}&durability=bulk"), &[], b"one more\n").expect(200);
        assert_eq!(node.count(""), run);
        assert_eq!(node.status()["damaged"].as_array().unwrap().len(), 0, "{}", node.status());
        if run % 2 == 0 { node.kill() } else { assert!(node.terminate().success()) }
    }
    for path in foreign_files {
        assert_eq!(fs::read(&path).unwrap(), b"kept", "{}", path.display());
    }
}
