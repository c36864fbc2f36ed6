//! `verify --repair` repairs files without lost records, reports lost records, and removes no file.

use std::fs;
use std::path::{Path, PathBuf};

use bucksaw_generate::{Config, SampleFormat};

use crate::corpus::lines;
use crate::node::{TestServer, bucksaw};

const LINES: u64 = 20_000;

/// More records than a block has.
const BLOCKS_LINES: u64 = 150_000;

/// The exit code and output of `verify`.
fn verify(node: &TestServer, repair: bool) -> (i32, String) {
    let mut command = bucksaw(["verify".as_ref(), node.dir()]);
    if repair {
        command.arg("--repair");
    }
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

/// The names of the files in a directory.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> =
        entries.filter(|path| path.is_file()).map(|path| path.file_name().unwrap().to_str().unwrap().into()).collect();
    names.sort_unstable();
    names
}

fn only(dir: &Path, end: &str) -> PathBuf {
    let mut found = names(dir);
    found.retain(|name| name.ends_with(end));
    let [name] = &found[..] else { panic!("{found:?}") };
    dir.join(name)
}

/// A stopped node with one stored segment, and the segment.
fn stored(count: u64) -> (TestServer, PathBuf) {
    let mut node = TestServer::start(&["--segment-max-age", "1h", "--segment-max-bytes", "64M"]);
    let text = lines(Config { format: SampleFormat::Text, size: None, seed: 8 }, count);
    node.post("/api/v1/ingest?durability=bulk", &[], &text).expect(200);
    node.wait_stored();
    assert!(node.terminate().success());
    fs::read_dir(node.dir().join("queue")).unwrap().for_each(|file| fs::remove_file(file.unwrap().path()).unwrap());
    let segment = only(&node.dir().join("store"), ".seg");
    (node, segment)
}

/// The number of found lines, and the standard error.
fn count(node: &mut TestServer) -> (u64, String) {
    node.restart();
    let output = node.cli(&["query", "-c"]);
    assert!(node.terminate().success());
    let count = str::from_utf8(&output.stdout).unwrap().trim_end().parse().unwrap();
    (count, String::from_utf8(output.stderr).unwrap())
}

/// Changes a byte.
fn corrupt(path: &Path, at: impl Fn(&[u8]) -> Vec<usize>) {
    let mut bytes = fs::read(path).unwrap();
    for at in at(&bytes) {
        bytes[at] ^= 0x20;
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_segment_without_lost_records_is_repaired() {
    let (mut node, segment) = stored(LINES);
    let sound = fs::read(&segment).unwrap();
    let backup = |bytes: &[u8]| bytes.windows(8).rposition(|found| found == b"BSWFOOT2").unwrap() - 44;
    let harms: [(&str, Vec<usize>, &str); 4] = [
        ("a page of a block", (5_000..5_100).collect(), "seg"),
        ("header and trailer", vec![9, sound.len() - 3], "seg"),
        // Then only the recovery records describe the blocks.
        ("both footers", vec![backup(&sound) - 9, sound.len() - 40], "seg"),
        ("header and both footers", vec![9, backup(&sound) - 9, sound.len() - 40], "damaged"),
    ];
    for (what, places, extension) in harms {
        corrupt(&segment, |_| places.clone());
        let harmed = segment.with_extension(extension);
        fs::rename(&segment, &harmed).unwrap();
        let (code, out) = verify(&node, false);
        assert_eq!(code, 1, "{what}: {out}");
        assert!(
            out.contains("nothing is lost: --repair repairs it") && out.ends_with(", 1 damaged\n"),
            "{what}: {out}"
        );
        let (code, out) = verify(&node, true);
        assert_eq!(code, 0, "{what}: {out}");
        assert!(out.ends_with(&format!("1 segments, {LINES} records, 1 repaired, 0 damaged\n")), "{what}: {out}");
        let sum = format!("1 segments, {LINES} records, 0 damaged\n");
        assert_eq!(verify(&node, false), (0, sum), "{what}");
        assert_eq!(count(&mut node), (LINES, String::new()), "{what}");
        assert!(segment.exists() && !segment.with_extension("damaged").exists(), "{what}");
        fs::write(&segment, &sound).unwrap();
    }
}

#[test]
fn lost_records_are_reported_until_the_damaged_file_is_moved_away() {
    let (mut node, segment) = stored(BLOCKS_LINES);
    corrupt(&segment, |bytes| {
        let record = bytes.windows(4).position(|window| window == b"BSWR").unwrap();
        (40..=record).collect()
    });
    let harmed = fs::read(&segment).unwrap();
    let (code, out) = verify(&node, false);
    assert_eq!(code, 1, "{out}");
    let lost: u64 = out.split(" records are lost").next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    let kept = BLOCKS_LINES - lost;
    assert!(lost > 0 && kept > 0 && out.contains(&format!("--repair saves the {kept} records")), "{out}");
    assert_eq!(fs::read(&segment).unwrap(), harmed, "without --repair nothing changes");
    let (code, out) = verify(&node, true);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains(&format!("saved {kept} records to store/")), "{out}");
    assert!(out.contains(&format!("in total {lost} records are lost\n")), "{out}");
    let aside = only(&node.dir().join("store"), ".saved.damaged");
    assert_eq!(fs::read(&aside).unwrap(), harmed);
    let before = names(&node.dir().join("store"));
    let (code, out) = verify(&node, true);
    assert_eq!((code, names(&node.dir().join("store"))), (1, before), "{out}");
    assert!(out.contains("move it away") && out.ends_with(", 0 repaired, 1 damaged\n"), "{out}");
    let name = aside.file_name().unwrap().to_str().unwrap();
    for _ in 0..2 {
        let (found, said) = count(&mut node);
        assert!(found == kept && said.contains("partial") && said.contains(name), "{found}: {said}");
    }
    fs::remove_file(&aside).unwrap();
    assert_eq!(count(&mut node), (kept, String::new()));
    assert_eq!(verify(&node, false).0, 0);
}

#[test]
fn whole_frames_of_a_damaged_queue_segment_are_stored() {
    let mut node = TestServer::start(&["--segment-max-age", "1h"]);
    for frame in 0..3 {
        let text: String = (0..100).map(|line| format!("line {line} of frame {frame}\n")).collect();
        node.post("/api/v1/ingest", &[], text.as_bytes()).expect(200);
    }
    node.kill();
    let queue = node.dir().join("queue");
    let file = only(&queue, ".active");
    let sound = fs::read(&file).unwrap();
    corrupt(&file, |bytes| vec![bytes.windows(10).position(|text| text == b"of frame 1").unwrap()]);
    let harmed = fs::read(&file).unwrap();
    let (code, out) = verify(&node, false);
    assert!(code == 1 && out.contains("--repair saves the 200 records that can be read"), "{out}");
    let (code, out) = verify(&node, true);
    assert!(code == 1 && out.contains("saved 200 records to queue/"), "{out}");
    assert_eq!(fs::read(only(&queue, ".saved.damaged")).unwrap(), harmed);
    let (found, said) = count(&mut node);
    assert!(found == 200 && said.contains("partial") && said.contains(".saved.damaged"), "{found}: {said}");
    assert_eq!(names(&node.dir().join("store")).iter().filter(|name| name.ends_with(".seg")).count(), 1);
    // A kill leaves a torn tail.
    let (mut node, aside) = (TestServer::start_in(node.dir(), &[]), only(&queue, ".saved.damaged"));
    node.kill();
    fs::remove_file(&aside).unwrap();
    let torn = aside.with_file_name(file.file_name().unwrap());
    fs::write(&torn, &sound[..sound.len() - 7]).unwrap();
    let (code, out) = verify(&node, true);
    assert!(code == 0 && out.ends_with(" 0 repaired, 0 damaged\n"), "{out}");
    assert_eq!(fs::read(&torn).unwrap(), sound[..sound.len() - 7]);
}

#[test]
fn a_directory_in_use_is_not_repaired() {
    let node = TestServer::start(&[]);
    let output = bucksaw(["verify".as_ref(), node.dir(), "--repair".as_ref()]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert!(said.contains("a node uses") && said.contains("stop it before a repair"), "{said}");
}
