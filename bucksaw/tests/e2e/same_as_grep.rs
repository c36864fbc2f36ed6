//! Texts sent by each source are returned byte for byte. Every count equals grep's, and so do the lines and their order.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::path::{Path, PathBuf};

use bucksaw_env::Env;
use bucksaw_segment::stored::{Reader, SearchableBlock};

use crate::clickhouse_server::ClickHouseServer;
use crate::client::encode;
use crate::corpus::{NamedText, corpus};
use crate::node::{TestServer, bucksaw};
use crate::pattern::{PatternTerm, PatternTree, count};
use crate::wait::wait_until;
use bucksaw_faults::Random;

/// Records stay in the queue until the node restarts.
const KEEP_IN_QUEUE: &[&str] = &["--segment-max-age", "1h", "--segment-max-bytes", "1GB"];

/// The seed of the patterns.
const SEED: u64 = 0x5eed_0f9e;

/// The number of patterns.
const PATTERNS: u64 = 2_000;

/// The default maximum record size.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// The sources. Each sends a text as its own stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IngestMethod {
    Tcp,
    Http,
    Forward,
}

const INGEST_METHODS: [IngestMethod; 3] = [IngestMethod::Tcp, IngestMethod::Http, IngestMethod::Forward];

impl IngestMethod {
    /// Sends a text as the stream `file=<name>`; returns when all of it is accepted.
    fn send(self, node: &TestServer, name: &str, text: &[u8], durable: bool) {
        let durability = if durable { "durable" } else { "fast" };
        match self {
            Self::Tcp => {
                let mut stream = node.connect(durability);
                stream.write_all(format!("#labels file={name}\n").as_bytes()).unwrap();
                // Pieces that do not end at line ends.
                text.chunks(10_007).for_each(|piece| stream.write_all(piece).unwrap());
                stream.shutdown(Shutdown::Write).unwrap();
                // The node closes when it has read everything.
                let mut said = Vec::new();
                stream.read_to_end(&mut said).unwrap();
                assert!(said.is_empty(), "{name}: {}", said.escape_ascii());
            }
            Self::Http => {
                let target = format!("/api/v1/ingest?durability={durability}&label=file={}", encode(name));
                let answer = node.post(&target, &[("Content-Type", "text/plain")], text).expect(200).json();
                assert_eq!((&answer["accepted"], &answer["rejected"]), (&records(text).into(), &0.into()), "{name}");
            }
            Self::Forward => {
                let label = format!("file={name}");
                let output = node.forward(durability, &["--label", &label, "--durability", durability], text);
                assert_eq!(output.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            }
        }
    }
}

/// The number of records of a text: one per line, more for long lines.
fn records(text: &[u8]) -> u64 {
    let bytes = |line: &[u8]| line.strip_suffix(b"\n").unwrap_or(line).len();
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    lines.map(|line| bytes(line).max(1).div_ceil(RECORD_BYTES_MAX) as u64).sum()
}

/// Texts with lines that no corpus has; those with cut lines come last.
fn special() -> Vec<NamedText> {
    let every_byte: Vec<u8> = (0..=u8::MAX).flat_map(|byte| [byte, b'-', byte, b'\n']).collect();
    let long = |length: usize, end: &str| [&vec![b'l'; length][..], end.as_bytes()].concat();
    let texts: Vec<(&str, Vec<u8>)> = vec![
        ("empty", Vec::new()),
        ("one-byte", b"x".to_vec()),
        ("one-line-end", b"\n".to_vec()),
        ("empty-lines", b"\n".repeat(1_000)),
        ("crlf", b"a\r\n\r\nb \r\n\rc\r\r\nd\r".to_vec()),
        ("nul", b"\0\na\0b\n\0\0\0\nc\0\n\n\0d".to_vec()),
        ("not-utf8", b"caf\xe9\n\xff\xfe\xfd\n\xc0\x80 overlong\n\xed\xa0\x80\n\xf0\x9f\x92\nna\xc3\xafve\n".to_vec()),
        ("every-byte", every_byte),
        ("no-line-end", b"first\nlast".to_vec()),
        ("like-labels", b"first\n#labels a=b\n#labels\n\"quoted\" \\slashed\\ /x/i (y) -z\n".to_vec()),
        ("spaces", b" \n\t\n  a  \n\t\tb\t\n".to_vec()),
        ("longest", long(RECORD_BYTES_MAX, "\nnext\n")),
        ("longest-open", [&b"before\n"[..], &long(RECORD_BYTES_MAX, "")].concat()),
        ("one-too-long", long(RECORD_BYTES_MAX + 1, "\nnext\n")),
        ("three-and-a-half", [&b"before\n\n"[..], &long(3_500_000, "\n\nafter\n")].concat()),
        ("twice-the-longest-open", long(2 * RECORD_BYTES_MAX, "")),
    ];
    texts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect()
}

#[test]
fn every_text_is_returned_byte_for_byte() {
    texts_are_returned_byte_for_byte(&[]);
}

#[test]
fn every_text_is_returned_byte_for_byte_from_clickhouse() {
    let database = ClickHouseServer::start();
    texts_are_returned_byte_for_byte(&["--store", &database.url("logs")]);
}

fn texts_are_returned_byte_for_byte(store: &[&str]) {
    let texts = [special(), corpus()].concat();
    let mut node = TestServer::start(&[KEEP_IN_QUEUE, store].concat());
    for (at, (name, text)) in texts.iter().enumerate() {
        for way in INGEST_METHODS {
            way.send(&node, &format!("{way:?}.{name}"), text, at % 2 == 1);
            // At once: accepted records are visible.
            assert_round_trip(&node, &format!("{way:?}.{name}"), text);
        }
    }
    let sum: u64 = texts.iter().map(|(_, text)| records(text)).sum();
    assert_ne!(node.status()["queue"]["segments"], 0, "nothing is left in the queue");
    assert_eq!(node.status()["store"]["records"], 0, "something has left the queue");
    node.kill();
    node.restart();
    node.wait_stored();
    assert_eq!(node.status()["store"]["records"], 3 * sum);
    for (name, text) in &texts {
        INGEST_METHODS.iter().for_each(|way| assert_round_trip(&node, &format!("{way:?}.{name}"), text));
    }
    let bytes: usize = texts.iter().map(|(_, text)| text.len()).sum();
    eprintln!("{} texts, {bytes} bytes, {sum} records: the same by 3 ways, twice, asked in 2 ways", texts.len());
}

/// Queries a stream on the command line and by HTTP.
fn assert_round_trip(node: &TestServer, name: &str, text: &[u8]) {
    let output = node.cli(&["query", &format!("file={name}")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*said), (Some(i32::from(text.is_empty())), ""), "{name}");
    assert_same(name, &output.stdout, text);
    let target = format!("/api/v1/query?q={}", encode(format!("file={name}")));
    let answer = node.call("GET", &target, &[("Accept", "text/plain")], b"").expect(200);
    assert_same(name, &answer.body, text);
    let stats: serde_json::Value = serde_json::from_str(answer.header("bucksaw-stats").unwrap()).unwrap();
    assert_eq!((&stats["partial"], &stats["matched"]), (&false.into(), &records(text).into()), "{name}");
}

fn assert_same(name: &str, have: &[u8], want: &[u8]) {
    let differ = have.iter().zip(want).position(|(have, want)| have != want);
    assert!(
        have == want,
        "{name}: {} bytes of {} came back, and they differ first at {differ:?}",
        have.len(),
        want.len()
    );
}

/// A text in a file for grep.
struct CorpusSample {
    name: String,
    text: Vec<u8>,
    path: PathBuf,
}

#[test]
fn two_thousand_counts_are_those_of_grep() {
    counts_are_those_of_grep("columns");
}

#[test]
fn two_thousand_counts_are_those_of_grep_with_zstd() {
    counts_are_those_of_grep("zstd");
}

#[test]
fn two_thousand_counts_are_those_of_grep_in_clickhouse() {
    let database = ClickHouseServer::start();
    counts_with_store_are_those_of_grep("clickhouse", &["--store", &database.url("logs")]);
}

#[test]
fn two_thousand_counts_are_those_of_grep_when_lz4_packs() {
    counts_are_those_of_grep("lz4");
}

#[test]
fn two_thousand_counts_are_those_of_grep_without_compression() {
    counts_are_those_of_grep("none");
}

/// So small that the store first encodes quickly and later thoroughly, in several blocks.
const SMALL: &[&str] = &["--store-segment-bytes", "256K"];

/// Compares half of the patterns in the queue, half in stored blocks of `codec`.
fn counts_are_those_of_grep(codec: &str) {
    counts_with_store_are_those_of_grep(codec, &["--store-codec", codec]);
}

/// The same for any store. `codec` is that of its blocks, or another name.
fn counts_with_store_are_those_of_grep(codec: &str, store: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let texts = [special(), corpus()].concat().into_iter();
    // grep has no maximum line length.
    let whole = texts.filter(|(_, text)| records(text) == text.split_inclusive(|byte| *byte == b'\n').count() as u64);
    let samples: Vec<CorpusSample> = whole
        .map(|(name, text)| {
            let path = dir.path().join(&name);
            fs::write(&path, &text).unwrap();
            CorpusSample { name, text, path }
        })
        .collect();
    let mut node = TestServer::start(&[KEEP_IN_QUEUE, SMALL, store].concat());
    for (at, sample) in samples.iter().enumerate() {
        INGEST_METHODS[at % 3].send(&node, &sample.name, &sample.text, at % 2 == 1);
    }
    let mut comparison = GrepComparison { random: Random::new(SEED), kinds: BTreeMap::new(), differences: Vec::new() };
    comparison.run(&node, &samples, PATTERNS / 2);
    assert_eq!(node.status()["store"]["records"], 0, "something has left the queue");
    node.kill();
    node.restart();
    node.wait_stored();
    // These two encode stored blocks again.
    if matches!(codec, "columns" | "zstd") {
        wait_until("everything is encoded thoroughly", || {
            node.metric("bucksaw_store_compactions_total") > 0.0 && node.metric("bucksaw_store_backlog_bytes") == 0.0
        });
    }
    comparison.run(&node, &samples, PATTERNS / 2);
    assert_eq!(has_columns(&node), codec == "columns");
    let GrepComparison { kinds, differences, .. } = comparison;
    let compared: u64 = kinds.values().map(|(compared, _)| compared).sum();
    eprintln!(
        "{codec}: seed {SEED:#x}, {} texts: {compared} patterns, {} differences",
        samples.len(),
        differences.len()
    );
    for (kind, (compared, matched)) in &kinds {
        eprintln!("  {compared:5} {kind} ({matched} matched something)");
    }
    assert!(compared == PATTERNS && differences.is_empty(), "{}", differences.join("\n"));
}

/// Whether the node has a columnar block.
fn has_columns(node: &TestServer) -> bool {
    let files = fs::read_dir(node.dir().join("store")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "seg")).any(|path| {
        let segment = Reader::open(Env::real().fs.open(&path).unwrap(), &path).unwrap();
        let blocks = 0..segment.footer().blocks.len();
        blocks.into_iter().any(|block| matches!(segment.searchable_block(block), Ok(SearchableBlock::Columns(_))))
    })
}

struct GrepComparison {
    random: Random,
    /// The numbers of patterns of each kind that were compared, and that matched.
    kinds: BTreeMap<String, (u64, u64)>,
    differences: Vec<String>,
}

impl GrepComparison {
    fn run(&mut self, node: &TestServer, samples: &[CorpusSample], patterns: u64) {
        let drawable: Vec<&CorpusSample> =
            samples.iter().filter(|sample| sample.text.iter().any(|byte| *byte > 0x20)).collect();
        let files: Vec<&Path> = samples.iter().map(|sample| sample.path.as_path()).collect();
        for number in 0..patterns {
            let sample = *self.random.pick(&drawable);
            match number % 20 {
                0..2 => self.by_letters(node, sample, &files),
                at @ 2..5 => self.by_lines(node, sample, at == 2),
                at => self.by_expression(node, sample, at == 5),
            }
        }
    }

    /// A term on the command line, with grep's flags, in all files.
    fn by_letters(&mut self, node: &TestServer, sample: &CorpusSample, files: &[&Path]) {
        let random = &mut self.random;
        let regex = random.one_in(2);
        let term =
            if regex { PatternTerm::regex(&sample.text, random) } else { PatternTerm::text(&sample.text, random) };
        let invert = random.one_in(4);
        let letters: &[&str] = if invert { &["-c", "-v"] } else { &["-c"] };
        let want = count(letters, &term, files);
        let mut command = bucksaw(["query", "--addr", &node.url()]);
        command.args(letters).arg(if regex { "-E" } else { "-F" });
        if term.any_case {
            command.arg("-i");
        }
        let expr = std::os::unix::ffi::OsStrExt::from_bytes(&term.bucksaw[..]);
        let output = command.arg("--").arg::<&std::ffi::OsStr>(expr).output().unwrap();
        let (have, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let exit = output.status.code() == Some(i32::from(want == 0)) && said.is_empty();
        let shown = format!("{command:?}: {:?}, {said}", output.status.code());
        let kind = format!(
            "query -c -{}{}{}, all texts",
            if regex { 'E' } else { 'F' },
            if term.any_case { "i" } else { "" },
            if invert { "v" } else { "" }
        );
        self.compare(kind, &shown, if exit { have.trim_end().parse().ok() } else { None }, want);
    }

    /// An expression over HTTP or on the command line, in one file.
    fn by_expression(&mut self, node: &TestServer, sample: &CorpusSample, command_line: bool) {
        let random = &mut self.random;
        let (tree, kind) = match random.below(10) {
            0..3 => (PatternTree::Term(PatternTerm::text(&sample.text, random)), "text"),
            3..6 => (PatternTree::Term(PatternTerm::regex(&sample.text, random)), "regex"),
            6 => (PatternTree::Not(Box::new(PatternTree::Term(PatternTerm::text(&sample.text, random)))), "NOT text"),
            7 => (PatternTree::Not(Box::new(PatternTree::Term(PatternTerm::regex(&sample.text, random)))), "NOT regex"),
            _ => (PatternTree::random(&sample.text, random), "AND, OR, NOT"),
        };
        let any_case = match &tree {
            PatternTree::Term(term) => term.any_case,
            PatternTree::Not(inner) => matches!(&**inner, PatternTree::Term(term) if term.any_case),
            _ => false,
        };
        let expr = format!("file={} {}", sample.name, tree.expression(random));
        let want = tree.count(&sample.path);
        let have = if command_line {
            let output = node.cli(&["query", "-c", &expr]);
            let exit = output.status.code() == Some(i32::from(want == 0));
            exit.then(|| String::from_utf8_lossy(&output.stdout).trim_end().parse().ok()).flatten()
        } else {
            let answer = node.get(&format!("/api/v1/count?q={}", encode(&expr)));
            (answer.status == 200).then(|| answer.json()["count"].as_u64()).flatten()
        };
        let asked = if command_line { "query -c" } else { "HTTP count" };
        let kind = format!("{asked}: {kind}{}", if any_case { ", any case" } else { "" });
        self.compare(kind, &expr, have, want);
    }

    /// The matching lines of one file over HTTP: all of them, or the last ones, newest first.
    fn by_lines(&mut self, node: &TestServer, sample: &CorpusSample, newest_first: bool) {
        let random = &mut self.random;
        let tree = PatternTree::random(&sample.text, random);
        let expr = format!("file={} {}", sample.name, tree.expression(random));
        let lines: Vec<&[u8]> = sample.text.split_inclusive(|byte| *byte == b'\n').collect();
        let mut want: Vec<&[u8]> =
            tree.lines(&sample.path).into_iter().map(|number| lines[number as usize - 1]).collect();
        let (mut target, mut kind) = (format!("/api/v1/query?q={}", encode(&expr)), "HTTP lines: all");
        if newest_first {
            let limit = 1 + random.below(20);
            target += &format!("&order=desc&limit={limit}");
            kind = "HTTP lines: newest first with limit";
            want.reverse();
            want.truncate(limit);
        }
        // A record without a line end gets one, unless it is the last of the answer.
        let between = |line: &&[u8]| if line.ends_with(b"\n") { line.to_vec() } else { [*line, b"\n"].concat() };
        let (last, before) = want.split_last().unzip();
        let mut text = before.map_or_else(Vec::new, |lines| lines.iter().map(between).collect::<Vec<_>>().concat());
        text.extend_from_slice(last.copied().unwrap_or_default());
        let answer = node.call("GET", &target, &[("Accept", "text/plain")], b"").expect(200);
        let differences = self.count(kind.to_owned(), !want.is_empty());
        if answer.body != text {
            differences.push(format!("{expr} ({kind}): {} bytes and grep has {}", answer.body.len(), text.len()));
        }
    }

    fn compare(&mut self, kind: String, pattern: &str, have: Option<u64>, want: u64) {
        let differences = self.count(kind, want > 0);
        if have != Some(want) {
            differences.push(format!("{pattern}: {have:?} and grep has {want}"));
        }
    }

    /// Counts a compared pattern; returns the list of differences.
    fn count(&mut self, kind: String, matched: bool) -> &mut Vec<String> {
        let counts = self.kinds.entry(kind).or_default();
        counts.0 += 1;
        counts.1 += u64::from(matched);
        &mut self.differences
    }
}
