//! Data directories with which a node does not start: it prints one line and changes nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::mounted::MountedDisk;
use super::{files, flip_bit, store_files};
use crate::node::{TestServer, run, serve};

/// Tries to start a node; returns the single line that it prints.
fn start_error(dir: &Path) -> String {
    let output = run(&mut serve(dir, ["--log-level", "error"]), b"");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

fn assert_says(said: &str, wanted: &[&str]) {
    wanted.iter().for_each(|wanted| assert!(said.contains(wanted), "`{wanted}` is not in: {said}"));
}

#[test]
fn a_read_only_directory_is_refused() {
    let Some(disk) = MountedDisk::mount(48) else { return };
    let used = disk.path().join("used");
    let mut node = TestServer::start_in(&used, &[]);
    node.post("/api/v1/ingest", &[], b"a line\n").expect(200);
    assert!(node.terminate().success());
    disk.make_read_only();
    assert_says(&start_error(&used), &["cannot write to the data directory", "used", "Read-only file system"]);
    let fresh = disk.path().join("fresh");
    assert_says(&start_error(&fresh), &["cannot create the data directory", "fresh", "Read-only file system"]);
}

#[test]
fn a_path_below_a_file_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "not a directory").unwrap();
    assert_says(&start_error(&file.join("data")), &["cannot create the data directory", "Not a directory"]);
    assert_says(&start_error(&file), &["cannot create the data directory", "file"]);
    assert_eq!(fs::read(&file).unwrap(), b"not a directory");
}

#[test]
fn a_directory_in_use_is_refused() {
    let node = TestServer::start(&[]);
    assert_says(&start_error(node.dir()), &["another process uses", "--data-dir"]);
    node.get("/-/ready").expect(200);
}

#[test]
fn a_directory_of_a_newer_version_is_refused() {
    let mut node = TestServer::start(&[]);
    node.post("/api/v1/ingest", &[], b"a line\n").expect(200);
    assert!(node.terminate().success());
    let file = node.dir().join("node.json");
    let before = fs::read_to_string(&file).unwrap();
    let newer = before.replace("\"format\": 1", "\"format\": 2");
    assert_ne!(newer, before);
    fs::write(&file, &newer).unwrap();
    // With a backup of the same version.
    fs::remove_file(node.dir().join("node.backup")).unwrap();
    assert_says(&start_error(node.dir()), &["newer version", "format 2", "use the newer program"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), newer);
    fs::write(&file, before).unwrap();
    node.restart();
    assert_eq!(node.count(""), 1);
}

#[test]
fn a_damaged_identity_without_a_backup_is_refused() {
    let mut node = TestServer::start(&[]);
    assert!(node.terminate().success());
    flip_bit(&node.dir().join("node.json"), 0);
    fs::remove_file(node.dir().join("node.backup")).unwrap();
    assert_says(&start_error(node.dir()), &["node.json is damaged", "restore a copy"]);
}

/// The newest versions.
const STORED_VERSION: u8 = 3;
const QUEUE_VERSION: u8 = 2;

/// Raises the version of a segment beyond the newest one: byte 8, with a checksum of the bytes before and the id at byte 12.
/// Returns the expected message.
fn raise_version(path: &Path, newest: u8) -> String {
    let mut bytes = fs::read(path).unwrap();
    bytes[8] = newest + 1;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..32]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    let expected = format!("has format {}; this program knows formats up to {newest}", bytes[8]);
    fs::write(path, bytes).unwrap();
    expected
}

fn lower_version(path: &Path, before: &[u8]) {
    assert_ne!(fs::read(path).unwrap(), before);
    fs::write(path, before).unwrap();
}

#[test]
fn segments_of_a_newer_version_are_refused() {
    let mut node = TestServer::start(&[]);
    node.post("/api/v1/ingest", &[], b"a line\n").expect(200);
    assert!(node.terminate().success());
    let stored = store_files(&node, "seg").remove(0);
    let before = fs::read(&stored).unwrap();
    let expected = raise_version(&stored, STORED_VERSION);
    let name = stored.file_name().unwrap().to_str().unwrap();
    assert_says(&start_error(node.dir()), &[name, &expected, "use the newer program"]);
    lower_version(&stored, &before);

    node.restart();
    node.post("/api/v1/ingest", &[], b"another line\n").expect(200);
    node.kill();
    let queued = files(&node.dir().join("queue"), "active").remove(0);
    let before = fs::read(&queued).unwrap();
    let expected = raise_version(&queued, QUEUE_VERSION);
    let name = queued.file_name().unwrap().to_str().unwrap();
    assert_says(&start_error(node.dir()), &[name, &expected, "use the newer program"]);
    lower_version(&queued, &before);

    node.restart();
    assert_eq!(node.count("line"), 2);
}

#[test]
fn a_world_readable_secret_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let (dir, secret) = (home.path().join("data"), home.path().join("secret"));
    fs::write(&secret, "0123456789abcdef0123456789abcdef").unwrap();
    let chmod = |mode| fs::set_permissions(&secret, fs::Permissions::from_mode(mode)).unwrap();
    let secret_flag = ["--log-level", "error", "--cluster-secret-file", secret.to_str().unwrap()];
    chmod(0o644);
    let output = run(&mut serve(&dir, secret_flag), b"");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert_says(&said, &["--cluster-secret-file", "chmod 600"]);
    for mode in [0o640, 0o600] {
        chmod(mode);
        let mut node = TestServer::start_in(&dir, &secret_flag[2..]);
        assert!(node.terminate().success(), "{mode:o}");
    }
}

#[test]
fn only_the_owner_can_read_the_data_directory() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    let mut node = TestServer::start_in(&dir, &[]);
    node.post("/api/v1/ingest?durability=bulk", &[], b"a line\n").expect(200);
    assert!(node.terminate().success());
    let open = || {
        let mut left = vec![dir.clone()];
        let mut open = Vec::new();
        while let Some(path) = left.pop() {
            // A running node removes files meanwhile.
            let Ok(found) = fs::metadata(&path) else { continue };
            if found.permissions().mode() & 0o077 != 0 {
                open.push(path.clone());
            }
            if found.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
        open
    };
    assert!(open().is_empty(), "{:?}", open());
    // As created by an older version.
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(dir.join("node.json"), fs::Permissions::from_mode(0o644)).unwrap();
    let mut node = TestServer::start_in(&dir, &[]);
    assert!(open().is_empty(), "{:?}", open());
    assert!(node.terminate().success());
}
