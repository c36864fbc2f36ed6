//! `verify`, and the lock of the data directory.

use std::fs;
use std::path::{Path, PathBuf};

use bucksaw_generate::{Config, SampleFormat};

use crate::corpus::lines;
use crate::node::{TestServer, bucksaw, serve};
use crate::wait::wait_until;

/// The exit code and output of `verify`.
fn verify(dir: &Path) -> (Option<i32>, String, String) {
    let output = bucksaw(["verify".as_ref(), dir]).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The files of a directory with this ending.
fn files(dir: &Path, end: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == end)).collect()
}

#[test]
fn intact_directories_pass() {
    let mut node = TestServer::start(&[]);
    let (code, out, _) = verify(node.dir());
    assert_eq!((code, &*out), (Some(0), "0 segments, 0 records, 0 damaged\n"));
    node.post("/api/v1/ingest", &[], &b"a line\n".repeat(1_000)).expect(200);
    // While the node writes, after a kill, and when all records are stored.
    for at in ["in use", "killed", "stored", "stopped"] {
        match at {
            "killed" => node.kill(),
            "stored" => {
                node.restart();
                node.wait_stored();
            }
            "stopped" => assert!(node.terminate().success()),
            _ => {}
        }
        // Stored records may still be in the queue.
        wait_until("every record is counted once", || {
            let (code, out, err) = verify(node.dir());
            assert_eq!((code, &*err), (Some(0), ""), "{at}: {out}");
            assert!(out.ends_with(" records, 0 damaged\n"), "{at}: {out}");
            out == "1 segments, 1000 records, 0 damaged\n"
        });
    }
}

#[test]
fn a_flipped_bit_is_found_in_every_file() {
    let mut node = TestServer::start(&["--segment-max-age", "200ms"]);
    let text = lines(Config { format: SampleFormat::Text, size: None, seed: 8 }, 20_000);
    node.post("/api/v1/ingest", &[], &text).expect(200);
    node.wait_stored();
    assert!(node.terminate().success());
    let found = files(&node.dir().join("store"), "seg");
    let [segment] = &found[..] else { panic!("{found:?}") };
    let sound = fs::read(segment).unwrap();
    let name = segment.file_name().unwrap().to_str().unwrap();
    for part in 0..=20 {
        let mut broken = sound.clone();
        let at = (broken.len() - 1) * part / 20;
        broken[at] ^= 0x10;
        fs::write(segment, &broken).unwrap();
        let (code, out, err) = verify(node.dir());
        assert_eq!((code, &*err), (Some(1), ""), "byte {at}: {out}");
        assert!(out.contains(&format!("store/{name}: ")) && out.ends_with(", 1 damaged\n"), "byte {at}: {out}");
    }
    // The node starts, and its answers are partial.
    let mut broken = sound.clone();
    broken[sound.len() / 2] ^= 1;
    fs::write(segment, &broken).unwrap();
    node.restart();
    let output = node.cli(&["query", "-c"]);
    assert_eq!(
        (output.stdout.as_slice(), output.stderr.as_slice()),
        (&b"20000\n"[..], &b""[..]),
        "one bit costs nothing"
    );
    assert!(node.terminate().success());
    let mut broken = sound;
    let record = broken.windows(4).position(|window| window == b"BSWR").unwrap();
    broken[100..=record].iter_mut().for_each(|byte| *byte ^= 1);
    fs::write(segment, &broken).unwrap();
    node.restart();
    let output = node.cli(&["query", "-c"]);
    let said = String::from_utf8(output.stderr).unwrap();
    let count: u64 = str::from_utf8(&output.stdout).unwrap().trim_end().parse().unwrap();
    assert!(count < 20_000 && said.contains("partial"), "{count}: {said}");
    let stats = &node.get("/api/v1/count?from=30d").expect(200).json()["stats"];
    assert!(
        stats["partial"] == true && stats["damaged"].to_string().contains(name.trim_end_matches(".seg")),
        "{stats}"
    );
    // No file is deleted.
    assert!(node.terminate().success());
    let (code, out, _) = verify(node.dir());
    assert_eq!(code, Some(1), "{out}");
    assert!(fs::read_dir(node.dir().join("store")).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        path.is_file() && fs::read(path).unwrap() == broken
    }));
}

#[test]
fn small_files_are_checked_and_restored() {
    let mut node = TestServer::start(&["--segment-max-age", "200ms"]);
    let key = [("Idempotency-Key", "a key without a time")];
    node.post("/api/v1/ingest", &key, b"a line\n").expect(200);
    wait_until("the clock file exists", || node.dir().join("store/clock.json").exists());
    node.wait_stored();
    assert!(node.terminate().success());
    let keys = files(&node.dir().join("queue"), "keys").pop().unwrap();
    let keys = format!("queue/{}", keys.file_name().unwrap().to_str().unwrap());
    let repair = |dir: &Path| bucksaw(["verify".as_ref(), "--repair".as_ref(), dir]).output().unwrap().status.code();
    let check = |dir: &Path, name: &str, left: i32| {
        assert_eq!(verify(dir).0, Some(0));
        let path = dir.join(name);
        let mut bytes = fs::read(&path).unwrap();
        bytes[10] ^= 0x80;
        fs::write(&path, &bytes).unwrap();
        let (code, out, err) = verify(dir);
        assert_eq!((code, &*err), (Some(1), ""), "{name}: {out}");
        let named = name.replace(".backup", ".json");
        assert!(out.starts_with(&named) && out.contains("no record is missing"), "{name}: {out}");
        assert!(out.ends_with(", 1 damaged\n"), "{name}: {out}");
        assert_eq!(repair(dir), Some(left), "{name}");
    };
    for (name, left) in [("addresses.json", 0), ("store/clock.json", 0), ("store/clock.backup", 0), (&keys, 1)] {
        check(node.dir(), name, left);
    }
    let (_, out, _) = verify(node.dir());
    assert!(out.contains("1 of 1 idempotency keys are damaged"), "{out}");
    // A node on the directory reports it, too.
    node.restart();
    assert_eq!(node.metric("bucksaw_ingest_damaged_keys"), 1.0);
    assert_eq!(node.status()["damaged_keys"], 1);
    assert!(node.log().contains("a key file is damaged"), "{}", node.log());
    let said = node.cli(&["status"]).stdout;
    assert!(String::from_utf8_lossy(&said).contains("could not read 1 idempotency key:"));
    node.post("/api/v1/ingest", &key, b"a line\n").expect(200);
    assert!(node.terminate().success());
    // The damaged file is replaced.
    check(node.dir(), "queue/boot", 0);
}

#[test]
fn erasures_are_checked_and_restored() {
    let mut node = TestServer::start(&[]);
    let erasure = node.post("/api/v1/erase?q=user%3Dalice", &[], b"").expect(200).json();
    assert!(node.terminate().success());
    let path = node.dir().join(format!("store/erasures/{}.json", erasure["id"].as_str().unwrap()));
    let copies = [path.clone(), path.with_extension("backup")];
    let name = format!("store/erasures/{}", path.file_name().unwrap().to_str().unwrap());
    let repair = |dir: &Path| bucksaw(["verify".as_ref(), "--repair".as_ref(), dir]).output().unwrap().status.code();
    assert_eq!(verify(node.dir()), (Some(0), "0 segments, 0 records, 0 damaged\n".to_owned(), String::new()));
    let sound = copies.each_ref().map(|copy| fs::read(copy).unwrap());
    for (copy, sound) in copies.iter().zip(&sound) {
        let mut flipped = sound.clone();
        flipped[sound.len() / 2] ^= 0x10;
        for damaged in [flipped, sound[..sound.len() / 2].to_vec(), Vec::new()] {
            fs::write(copy, damaged).unwrap();
            let (code, out, err) = verify(node.dir());
            assert_eq!((code, &*err), (Some(1), ""), "{out}");
            assert!(out.starts_with(&name) && out.contains("(the erasure is in effect)"), "{out}");
            assert_eq!((repair(node.dir()), verify(node.dir()).0), (Some(0), Some(0)));
        }
    }
    copies.iter().for_each(|copy| fs::write(copy, b"{\"version\":1}\n").unwrap());
    assert_eq!(repair(node.dir()), Some(1));
    let (code, out, _) = verify(node.dir());
    assert!(
        code == Some(1) && out.contains("answers may have what it erases") && out.ends_with(", 1 damaged\n"),
        "{out}"
    );
    node.restart();
    assert_eq!(node.get("/api/v1/erasures").expect(200).json()["damaged_files"].as_array().unwrap().len(), 1);
    wait_until("the metric says so", || node.metric("bucksaw_store_damaged_erasures") > 0.0);
}

#[test]
fn a_directory_without_data_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    for dir in [dir.path().to_owned(), dir.path().join("missing")] {
        let (code, out, err) = verify(&dir);
        assert_eq!((code, &*out), (Some(2), ""), "{err}");
        assert!(err.starts_with("bucksaw: ") && err.contains("is not a data directory"), "{err}");
    }
}

#[test]
fn a_directory_has_one_node() {
    let mut node = TestServer::start(&[]);
    node.post("/api/v1/ingest", &[], b"a line\n").expect(200);
    let output = serve(node.dir(), &[] as &[&str]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let want =
        format!("another process uses {}: stop it, or choose another directory with --data-dir", node.dir().display());
    assert!(said.contains(&want), "{said}");
    // The first is unaffected, and the lock ends with its process.
    assert_eq!(node.count("line"), 1);
    node.kill();
    node.restart();
    assert_eq!(node.count("line"), 1);
}
