//! `import`: files of all kinds, repetitions, interruptions, errors.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use crate::node::{TestServer, bucksaw, run};
use crate::wait::wait_until;

/// Lines of several parts: a stack trace behind every third line, and times of 2023.
fn log(lines: u32) -> Vec<u8> {
    let mut text = Vec::new();
    for number in 0..lines {
        let (minute, second) = (number / 60 % 60, number % 60);
        writeln!(
            text,
            "2023-11-14 22:{minute:02}:{second:02},{:03} INFO request {number} {}",
            number % 1_000,
            "x".repeat(200)
        )
        .unwrap();
        if number % 3 == 0 {
            writeln!(text, "\tat com.example.Main(Main.java:{number})").unwrap();
        }
    }
    text
}

fn line_count(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn write(dir: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn import(node: &TestServer, path: &Path, more: &[&str]) -> Output {
    let url = node.url();
    let mut command = bucksaw(["import", "--addr", &url]);
    run(command.arg(path).args(more), b"")
}

fn import_whole(node: &TestServer, path: &Path, more: &[&str]) {
    let output = import(node, path, more);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*output.stdout, &*said), (Some(0), &b""[..], ""), "{}", path.display());
}

fn count(node: &TestServer, filter: &str) -> u64 {
    let filter = filter.replace('=', "%3D");
    let answer = node.get(&format!("/api/v1/count?from=1970-01-01&q={filter}")).expect(200).json();
    assert_eq!(answer["stats"]["partial"], false, "{answer}");
    answer["count"].as_u64().unwrap()
}

#[test]
fn a_text_is_imported_once_in_any_compression_and_after_restarts() {
    let dir = TempDir::new().unwrap();
    let text = log(30_000);
    let lines = line_count(&text);
    assert!(text.len() > 6 << 20, "one part");
    let plain = write(&dir, "app.log", &text);
    let gz = write(&dir, "renamed", &gzip(&text));
    let zst = write(&dir, "app.log.zst", &zstd::encode_all(&text[..], 1).unwrap());
    let mut node = TestServer::start(&[]);
    import_whole(&node, &plain, &["--label", "app=a"]);
    assert_eq!(count(&node, "app=a"), lines);
    import_whole(&node, &gz, &["--label", "app=a"]);
    assert_eq!(count(&node, "app=a"), lines);
    // The keys are no longer known.
    node.terminate();
    let keys = fs::read_dir(node.dir().join("queue")).unwrap().map(|entry| entry.unwrap().path());
    keys.filter(|path| path.extension().is_some_and(|extension| extension == "keys"))
        .for_each(|path| fs::remove_file(path).unwrap());
    node.restart();
    node.wait_stored();
    import_whole(&node, &zst, &["--label", "app=a", "--durability", "bulk"]);
    assert_eq!(count(&node, "app=a"), lines);
    // Another label is another stream.
    import_whole(&node, &plain, &["--label", "app=b"]);
    assert_eq!((count(&node, "app=a"), count(&node, "app=b")), (lines, lines));
    let back = node.cli(&["query", "--from", "1970-01-01", "app=b"]).stdout;
    let sorted = |text: &[u8]| {
        let mut lines: Vec<Vec<u8>> = text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    assert!(sorted(&back) == sorted(&text), "other text came back");
}

#[test]
fn an_import_that_is_killed_is_completed_by_the_next() {
    let dir = TempDir::new().unwrap();
    let text = log(40_000);
    let path = write(&dir, "app.log", &text);
    let mut node = TestServer::start(&[]);
    let mut first = bucksaw(["import", "--addr", &node.url(), "-"]).stdin(Stdio::piped()).spawn().unwrap();
    // The first part and some of the second.
    let mut pipe = first.stdin.take().unwrap();
    pipe.write_all(&text[..6 << 20]).unwrap();
    wait_until("a part is imported", || count(&node, "") > 0);
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(count(&node, "") < line_count(&text), "the import was complete");
    node.kill();
    node.restart();
    import_whole(&node, &path, &[]);
    assert_eq!(count(&node, ""), line_count(&text));
}

#[test]
fn lines_have_the_times_that_they_state_or_that_of_the_file() {
    let dir = TempDir::new().unwrap();
    let text = b"no time\n2023-11-14 23:13:20,5 one\n\tat two\n2023-11-14 23:13:21 three";
    let path = write(&dir, "app.log", text);
    let node = TestServer::start(&[]);
    import_whole(&node, &path, &["--label", "from=line", "--time-zone", "Europe/Berlin"]);
    import_whole(&node, &path, &["--label", "from=file", "--time-from", "file"]);
    let times = |filter: &str| {
        let mut records = node.get(&format!("/api/v1/query?from=1970-01-01&q={filter}")).expect(200).objects();
        records.pop();
        records.iter().map(|record| record["time"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut sorted = times("from%3Dline");
    sorted.sort();
    assert_eq!(
        sorted,
        [
            "2023-11-14T22:13:20.500000Z",
            "2023-11-14T22:13:20.500000Z",
            "2023-11-14T22:13:20.500000Z",
            "2023-11-14T22:13:21.000000Z"
        ]
    );
    let of_file = times("from%3Dfile");
    assert!(
        of_file.len() == 4 && of_file.iter().all(|time| *time == of_file[0] && time.as_str() > "2025"),
        "{of_file:?}"
    );
}

#[test]
fn errors_say_what_was_imported() {
    let dir = TempDir::new().unwrap();
    let text = log(30_000);
    let gz = gzip(&text);
    let node = TestServer::start(&[]);
    let check = |path: &Path, more: &[&str], code: i32, want: &[&str]| {
        let output = import(&node, path, more);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.starts_with("bucksaw: ") && want.iter().all(|want| said.contains(want)), "{said}");
    };
    let cut = write(&dir, "cut.gz", &gz[..gz.len() / 2]);
    check(&cut, &["--label", "of=cut"], 1, &["its text ends early", "records were imported"]);
    let imported = count(&node, "of=cut");
    assert!(imported > 0 && imported < line_count(&text), "{imported}");
    let mut damaged = zstd::encode_all(&text[..], 1).unwrap();
    damaged.truncate(8);
    check(&write(&dir, "x.zst", &damaged), &["--label", "of=zst"], 1, &["nothing of it was imported"]);
    check(&dir.path().join("missing"), &[], 1, &["cannot open it"]);
    check(dir.path(), &[], 2, &["is a directory: name its files, such as"]);
    check(&cut, &["--label", "a"], 2, &["label `a` has no `=`"]);
    check(&cut, &["--label", "of=cut"], 1, &["its text ends early", "records were imported"]);
    assert_eq!(count(&node, "of=cut"), imported);
    let url = node.url();
    drop(node);
    let output = run(bucksaw(["import", "--addr", &url]).arg(&cut), b"");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("is a node running?"), "{said}");
}

#[test]
fn several_files_and_standard_input_are_imported() {
    let dir = TempDir::new().unwrap();
    let files = [
        write(&dir, "a", b"2023-11-14 22:13:20 a\n"),
        write(&dir, "b", b""),
        write(&dir, "c", b"2023-11-14 22:13:21 c\n"),
    ];
    let node = TestServer::start(&[]);
    let output = run(bucksaw(["import", "--addr", &node.url()]).args(&files), b"");
    assert_eq!(output.status.code(), Some(0));
    let output = run(&mut bucksaw(["import", "--addr", &node.url(), "-"]), &gzip(b"2023-11-14 22:13:22 d\n"));
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stderr).contains("standard input is imported once"));
    assert_eq!((count(&node, "a"), count(&node, "c"), count(&node, "d"), count(&node, "")), (1, 1, 1, 3));
}
