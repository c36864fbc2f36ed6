//! Answers and `status` report segments that retention removed by mistake, and an operator can restore them.

use std::fs;

use super::store_files;
use crate::node::TestServer;
use crate::wait::wait_until;

#[test]
fn segments_in_the_trash_are_reported_and_restored_by_moving_them() {
    let mut node = TestServer::start(&["--retention-age", "3s", "--trash-age", "1h"]);
    node.post("/api/v1/ingest?durability=bulk", &[], b"one\ntwo\n").expect(200);
    wait_until("retention removes it", || node.metric("bucksaw_store_trash_segments") == 1.0);
    // The queue file remains for some seconds.
    assert_eq!(node.count(""), 0);
    let trash = node.status()["trash"].clone();
    assert_eq!((&trash["segments"], &trash["records"]), (&1.into(), &2.into()), "{trash}");
    assert!(trash["oldest"].is_string() && trash["newest"].is_string() && trash["bytes"].as_u64() > Some(0), "{trash}");
    let stderr = |node: &TestServer, arguments: &[&str]| {
        let output = node.cli(arguments);
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let said = stderr(&node, &["query", "one", "--from", "1h"]);
    assert!(said.contains("1 segments with 2 records") && said.contains("in the trash"), "{said}");
    let said = stderr(&node, &["query", "one", "--from", "2h", "--to", "1h"]);
    assert!(!said.contains("in the trash"), "it is of another time: {said}");
    let said = stderr(&node, &["status"]);
    assert!(said.contains("trash on") && said.contains("2 records"), "{said}");
    let answer = node.get("/api/v1/count?from=1h&q=").expect(200).json();
    assert_eq!((&answer["stats"]["trashed_segments"], &answer["stats"]["partial"]), (&1.into(), &false.into()));

    assert!(node.terminate().success());
    let store = node.dir().join("store");
    for entry in fs::read_dir(store.join("trash")).unwrap() {
        let path = entry.unwrap().path();
        fs::rename(&path, store.join(path.file_name().unwrap())).unwrap();
    }
    node.restart_with(&["--retention-age", "7d"]);
    assert_eq!((node.count("one"), node.count("two"), store_files(&node, "seg").len()), (1, 1, 1));
    assert_eq!(node.status()["trash"]["segments"], 0);
}

#[test]
fn a_segment_that_cannot_be_moved_to_the_trash_stays() {
    let mut node = TestServer::start(&["--retention-age", "3s", "--trash-age", "1h"]);
    let trash = node.dir().join("store/trash");
    fs::remove_dir(&trash).unwrap();
    // The directory is missing; the disk has space.
    fs::write(&trash, "").unwrap();
    node.post("/api/v1/ingest?durability=bulk", &[], b"one\n").expect(200);
    wait_until("retention tries", || node.log().contains("cannot move an expired segment to the trash"));
    assert_eq!(store_files(&node, "seg").len(), 1);
    assert!(node.terminate().success());
    let (_, log) = node.try_restart().unwrap_err();
    assert!(log.contains(trash.to_str().unwrap()), "it names what is in the way: {log}");
    fs::remove_file(&trash).unwrap();
    node.restart_with(&["--retention-age", "7d"]);
    assert_eq!(node.count("one"), 1);
}
