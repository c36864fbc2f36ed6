//! Encryption at rest: a real node, its raw directory, a rotation of keys, and a missing key.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::store_files;
use crate::node::{TestServer, bucksaw, run, serve};
use crate::wait::wait_until;

const NEEDLE: &str = "the-needle-that-no-file-may-show";
const OLD: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const OLD_ID: &str = "b585208aaaf4bee7";
const NEW: &str = "00ffeeddccbbaa99887766554433221100ffeeddccbbaa998877665544332211";

fn write_keys(path: &Path, keys: &[&str]) {
    fs::write(path, format!("# keys\n{}\n", keys.join("\n"))).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn has_needle(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        // Files of the queue vanish meanwhile.
        if path.is_dir() {
            return has_needle(&path);
        }
        let bytes = fs::read(&path).unwrap_or_default();
        bytes.windows(NEEDLE.len()).any(|window| window == NEEDLE.as_bytes())
    })
}

/// Sends 60 lines in 3 batches, one of them twice with an idempotency key: a second call adds 40.
fn send(node: &TestServer) {
    let batch: String = (0..20).map(|line| format!("{NEEDLE} {line}\n")).collect();
    let with_label = format!("/api/v1/ingest?label=app={NEEDLE}");
    node.post(&with_label, &[], batch.as_bytes()).expect(200);
    for _ in 0..2 {
        let key = [("idempotency-key", NEEDLE)];
        node.post("/api/v1/ingest?durability=durable", &key, batch.as_bytes()).expect(200);
    }
    assert!(node.forward("fast", &[], batch.as_bytes()).status.success());
}

/// Waits until the store has all records. Those of a `bulk` batch are stored at once, and others with them, so this takes less
/// than the ten seconds after which they are stored otherwise.
fn store_all(node: &TestServer) {
    wait_until("the queue is empty", || {
        node.post("/api/v1/ingest?durability=bulk", &[], b"another line\n").expect(200);
        node.status()["queue"]["segments"] == 0
    });
}

/// The segments under each key; `None` for what is not encrypted.
fn segments(node: &TestServer) -> Vec<(Option<String>, u64)> {
    let status = node.status();
    let keys = status["encryption"]["keys"].as_array().cloned().unwrap_or_default();
    keys.iter().map(|key| (key["key"].as_str().map(str::to_owned), key["segments"].as_u64().unwrap())).collect()
}

#[test]
fn no_line_is_on_the_disk_and_keys_rotate() {
    let home = tempfile::tempdir().unwrap();
    let (keys, dir) = (home.path().join("keys"), home.path().join("data"));
    write_keys(&keys, &[OLD]);
    let with_keys = ["--encryption-key-file", keys.to_str().unwrap(), "--segment-max-age", "100ms"];
    let mut node = TestServer::start_in(&dir, &with_keys);
    send(&node);
    assert!(!has_needle(&dir), "in the queue");
    store_all(&node);
    assert!(!has_needle(&dir), "stored");
    assert_eq!(node.count(NEEDLE), 60);
    // Also if segments are merged at this moment.
    wait_until("all segments have the key", || {
        segments(&node) == [(Some(OLD_ID.to_owned()), store_files(&node, "seg").len() as u64)]
    });
    // It selects nothing.
    node.post(&format!("/api/v1/erase?q={NEEDLE}%20and%20another"), &[], b"").expect(200);
    assert!(!has_needle(&dir), "the expression of an erasure");
    let erasures = |node: &TestServer| node.status()["encryption"]["keys"][0]["erasures"].as_u64();
    assert_eq!(erasures(&node), Some(1));
    // Rotation while the node runs.
    write_keys(&keys, &[NEW, OLD]);
    wait_until("the new key is in use", || node.log().contains("changed encryption keys are in use"));
    wait_until("segments are rewritten", || {
        segments(&node).len() == 1 && segments(&node)[0].0.as_deref() != Some(OLD_ID)
    });
    assert!(node.metric("bucksaw_store_rewrite_for_key_bytes") < 1.0);
    assert_eq!(erasures(&node), Some(1));
    assert_eq!(node.count(NEEDLE), 60);
    send(&node);
    assert!(node.terminate().success());
    assert!(!has_needle(&dir), "after the end");
    write_keys(&keys, &[NEW]);
    let verify = |arguments: &[&str]| {
        let output = run(&mut bucksaw(["verify", dir.to_str().unwrap()].iter().chain(arguments)), b"");
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    // Queue files that stores have may still be under the old key.
    let (_, said) = verify(&with_keys[..2]);
    assert!(said.contains(" 0 damaged") && !said.contains("store/"), "{said}");
    let (is_intact, said) = verify(&["--repair"]);
    assert!(!is_intact && said.contains(" 0 damaged, ") && said.contains("not checked for want of a key"), "{said}");
    node.restart();
    assert_eq!(node.count(NEEDLE), 100);
    assert!(node.terminate().success());
    // Without the key, or with another one, nothing starts and nothing changes.
    write_keys(&keys, &[OLD]);
    for arguments in [&[][..], &with_keys] {
        let output = run(&mut serve(&dir, arguments.iter().chain(&["--log-level", "off"])), b"");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("is encrypted with key"), "{said}");
    }
    write_keys(&keys, &[NEW]);
    node.restart();
    assert_eq!(node.count(NEEDLE), 100);
}

#[test]
fn segments_of_a_missing_key_are_reported_until_it_is_named() {
    let home = tempfile::tempdir().unwrap();
    let (keys, dir) = (home.path().join("keys"), home.path().join("data"));
    // Segments of this size are not merged with each other.
    let with_keys = ["--encryption-key-file", keys.to_str().unwrap(), "--segment-max-age", "100ms"];
    write_keys(&keys, &[OLD]);
    let mut node = TestServer::start_in(&dir, &with_keys);
    send(&node);
    store_all(&node);
    assert!(node.terminate().success());
    let old: Vec<_> = store_files(&node, "seg");
    let aside: Vec<_> = old.iter().map(|path| home.path().join(path.file_name().unwrap())).collect();
    old.iter().zip(&aside).for_each(|(path, aside)| fs::rename(path, aside).unwrap());
    fs::remove_dir_all(dir.join("queue")).unwrap();
    write_keys(&keys, &[NEW]);
    node.restart();
    store_all(&node);
    assert!(node.terminate().success());
    old.iter().zip(&aside).for_each(|(path, aside)| fs::rename(aside, path).unwrap());
    node.restart();
    let answer = node.cli(&["query", NEEDLE]);
    let said = String::from_utf8(answer.stderr).unwrap();
    assert!(said.contains(&format!("its encryption key {OLD_ID} is not known")), "{said}");
    assert_eq!(node.status()["encryption"]["segments_without_key"].as_array().unwrap().len(), old.len());
    assert!(node.metric("bucksaw_store_keyless_segments") >= 1.0);
    assert!(node.log().contains("cannot be read without its key"));
    let status = String::from_utf8(node.cli(&["status"]).stdout).unwrap();
    assert!(status.contains("answers over their time are partial"), "{status}");
    // Its name is given again while the node runs.
    write_keys(&keys, &[NEW, OLD]);
    wait_until("the segments are opened", || {
        node.status()["encryption"]["segments_without_key"].as_array().unwrap().is_empty()
    });
    assert_eq!(node.count(NEEDLE), 60);
}

#[test]
fn unusable_keys_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let (keys, dir) = (home.path().join("keys"), home.path().join("data"));
    let refusal = |arguments: &[&str]| {
        let output = run(&mut serve(&dir, arguments.iter().chain(&["--log-level", "off"])), b"");
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let file = ["--encryption-key-file", keys.to_str().unwrap()];
    assert!(refusal(&file).contains("does not exist"));
    write_keys(&keys, &["short"]);
    let said = refusal(&file);
    assert!(said.contains("line 2 is not a key") && !said.contains("short"), "{said}");
    write_keys(&keys, &[OLD]);
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(refusal(&file).contains("chmod 600"));
    assert!(refusal(&["--encryption-key-command", "echo no; exit 3"]).contains("exit status: 3"));
    assert!(refusal(&["--encryption-key-command", "true", file[0], file[1]]).contains("exclude each other"));
    let command = format!("cat {}", keys.display());
    let mut node = TestServer::start_in(&dir, &["--encryption-key-command", &command]);
    send(&node);
    assert!(!has_needle(&dir));
    assert!(node.terminate().success());
}
