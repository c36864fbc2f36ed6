//! Chunks as events, against a reader of the whole file.

use std::sync::Arc;
use std::time::Duration;

use bucksaw_protocols::AttributeList;
use bucksaw_protocols::container::ContainerFormat;
use bucksaw_record::Flags;
use proptest::prelude::*;

use super::*;
use crate::lines::event::LineEvent;

/// Collects events as `time stream flags text`, each with its offset.
struct Collected {
    events: Vec<(u64, String)>,
    room: usize,
    taken: usize,
}

impl Default for Collected {
    fn default() -> Self {
        Self { events: Vec::new(), room: usize::MAX, taken: 0 }
    }
}

impl LineEventSink for Collected {
    fn push(&mut self, event: &LineEvent<'_>) {
        let time = event.time.map_or("-".to_owned(), |(at, _)| (at.0 % 100_000).to_string());
        let stream = event.stream.map_or("-", |stream| stream.name());
        let text = event.text.escape_ascii();
        let mark = if event.is_undecoded { "?" } else { "" };
        let attributes: String = event.attributes.iter().map(|(name, _)| format!("+{name}")).collect();
        self.events.push((event.offset, format!("{time} {stream} {} {text}{attributes}{mark}", event.flags)));
        self.taken += event.text.len();
    }

    fn added_bytes(&self, attributes: &AttributeList) -> usize {
        attributes.value_bytes()
    }

    fn room(&self) -> usize {
        self.room.saturating_sub(self.taken)
    }
}

const MAX: usize = 60;

fn chunk(text: &[u8]) -> ChunkText<'_> {
    ChunkText {
        text,
        offset: 0,
        is_end: false,
        is_full: false,
        waited: Duration::ZERO,
        wait: Duration::from_secs(1),
        now: Duration::ZERO,
    }
}

/// The events of one chunk, and the consumed bytes.
fn read_chunk(multiline: &str, chunk: ChunkText<'_>) -> (Vec<String>, usize) {
    let mut reader = EventReader::new(Multiline::parse(multiline).unwrap(), MAX);
    let mut sink = Collected::default();
    let read = reader.read(&mut FileLines::new(Some(ContainerFormat::Any)), chunk, &mut sink);
    (sink.events.into_iter().map(|(_, event)| event).collect(), read.consumed)
}

fn cri(second: u32, stream: &str, tag: &str, text: &str) -> String {
    format!("2023-11-14T22:13:{second:02}Z {stream} {tag} {text}\n")
}

#[test]
fn parts_are_joined_per_stream() {
    let lines = [
        cri(20, "stdout", "P", "a"),
        cri(21, "stderr", "P", "x"),
        cri(22, "stdout", "F", "b"),
        "broken\n".to_owned(),
        cri(23, "stderr", "F", "y"),
        cri(24, "stdout", "F", "c"),
    ];
    let text = lines.concat();
    let (events, consumed) = read_chunk("off", chunk(text.as_bytes()));
    assert_eq!(events, ["0 stdout 0 ab", "- - 0 broken?", "1000 stderr 0 xy", "4000 stdout 0 c"]);
    assert_eq!(consumed, text.len());
    // Without the end of the first event, none is complete before it.
    let text = lines[..2].concat();
    assert_eq!(read_chunk("off", chunk(text.as_bytes())), (vec![], 0));
    // The first event crosses the start of the open one.
    let text = lines[..4].concat();
    assert_eq!(read_chunk("off", chunk(text.as_bytes())), (vec![], 0));
    let text = [&lines[5], &lines[0], &lines[5]].map(String::as_str).concat();
    assert_eq!(
        read_chunk("off", chunk(text.as_bytes())),
        (vec!["4000 stdout 0 c".into(), "0 stdout 0 ac".into()], text.len())
    );
}

#[test]
fn incomplete_events_wait_and_then_are_records() {
    let text = [cri(20, "stdout", "P", "a"), cri(21, "stderr", "F", "x"), "half a line".to_owned()].concat();
    let whole = text.len() - "half a line".len();
    let check = |change: &dyn Fn(&mut ChunkText<'_>), events: &[&str], consumed: usize| {
        let mut chunk = chunk(text.as_bytes());
        change(&mut chunk);
        let (found, found_consumed) = read_chunk("off", chunk);
        assert_eq!(
            (found.iter().map(String::as_str).collect::<Vec<_>>().as_slice(), found_consumed),
            (events, consumed)
        );
    };
    check(&|_| {}, &[], 0);
    check(&|chunk| chunk.waited = Duration::from_millis(999), &[], 0);
    check(&|chunk| chunk.waited = Duration::from_secs(1), &["0 stdout 1 a", "1000 stderr 0 x"], whole);
    check(&|chunk| chunk.is_full = true, &["0 stdout 1 a", "1000 stderr 0 x"], whole);
    check(&|chunk| chunk.is_end = true, &["0 stdout 2 a", "1000 stderr 0 x", "- - 2 half a line?"], text.len());
}

#[test]
fn an_event_that_waits_is_a_record_although_other_lines_follow() {
    let mut reader = EventReader::new(Multiline::Off, MAX);
    let mut file = FileLines::new(Some(ContainerFormat::Any));
    let part = cri(20, "stderr", "P", "prompt");
    let mut text = part.clone();
    for tenth in 0..30 {
        text += &cri(21, "stdout", "F", "out");
        let mut sink = Collected::default();
        let now = Duration::from_millis(100 * tenth);
        let read = reader.read(&mut file, ChunkText { now, ..chunk(text.as_bytes()) }, &mut sink);
        let want = if tenth < 10 { 0 } else { text.len() };
        assert_eq!(read.consumed, want, "{tenth}");
        if want > 0 {
            assert_eq!(sink.events.len(), 12);
            assert!(sink.events.iter().any(|(offset, event)| (*offset, event.as_str()) == (0, "0 stderr 1 prompt")));
            return;
        }
    }
}

#[test]
fn a_line_without_an_end_is_cut_when_the_chunk_is_full() {
    let text = b"no line end".as_slice();
    for multiline in ["off", "auto"] {
        assert_eq!(
            read_chunk(multiline, ChunkText { is_full: true, ..chunk(text) }),
            (vec!["- - 1 no line end".into()], 11)
        );
    }
}

#[test]
fn long_events_are_cut_at_a_line() {
    let text = [
        cri(20, "stdout", "F", "begin"),
        cri(21, "stdout", "F", &"x".repeat(40)),
        cri(22, "stdout", "F", &"y".repeat(40)),
        cri(23, "stdout", "F", "begin"),
    ]
    .concat();
    let (events, _) = read_chunk("begin", ChunkText { is_end: true, ..chunk(text.as_bytes()) });
    let (x, y) = ("x".repeat(40), "y".repeat(40));
    assert_eq!(
        events,
        [format!("0 stdout 1 begin\\n{x}"), format!("2000 stdout 0 {y}"), "3000 stdout 0 begin".to_owned()]
    );
}

#[test]
fn a_full_sink_stops_between_two_events() {
    let mut reader = EventReader::new(Multiline::Off, MAX);
    let mut file = FileLines::new(None);
    let text: String = (0..50).map(|number| format!("line {number}\n")).collect();
    let (mut at, mut lines) = (0, Vec::new());
    while at < text.len() {
        let mut sink = Collected { room: 30, ..Collected::default() };
        let read = reader.read(&mut file, ChunkText { offset: at as u64, ..chunk(&text.as_bytes()[at..]) }, &mut sink);
        assert!(read.consumed > 0 && read.is_cut_short == (at + read.consumed < text.len()));
        at += read.consumed;
        lines.extend(sink.events);
    }
    assert_eq!(lines.len(), 50);
    // Also if an event is open from the start on.
    let text = cri(20, "stdout", "P", "p") + &cri(21, "stderr", "F", "long text").repeat(9);
    let mut sink = Collected { room: 400, ..Collected::default() };
    let read = reader.read(&mut FileLines::new(Some(ContainerFormat::Any)), chunk(text.as_bytes()), &mut sink);
    assert!(read.is_cut_short && read.consumed > 0 && read.consumed < text.len(), "{read:?}");
}

#[test]
fn a_long_text_without_an_event_is_not_read_each_time() {
    let mut reader = EventReader::new(Multiline::Off, 1 << 20);
    let mut file = FileLines::new(Some(ContainerFormat::Any));
    let part = cri(20, "stdout", "P", &"x".repeat(16 << 10));
    let mut text = String::new();
    let (mut scans, mut lengths) = (0, Vec::new());
    while text.len() < 900 << 10 {
        text += &part;
        let before = file.next_scan;
        let read = reader.read(&mut file, chunk(text.as_bytes()), &mut Collected::default());
        assert_eq!(read.consumed, 0);
        if before.map(|next| next.length) != file.next_scan.map(|next| next.length) {
            scans += 1;
            lengths.push(text.len());
        }
    }
    assert!(scans < 15 && lengths.iter().sum::<usize>() < 6 * text.len(), "{scans} {lengths:?}");
    // The end is not passed over.
    text += &cri(20, "stdout", "F", "y");
    let mut sink = Collected::default();
    let read =
        reader.read(&mut file, ChunkText { waited: Duration::from_secs(1), ..chunk(text.as_bytes()) }, &mut sink);
    assert_eq!((read.consumed, sink.events.len()), (text.len(), 1));
}

/// The events of a whole file, by the rules in their plainest form.
fn oracle(lines: &[String], rest: &str, multiline: &Multiline) -> Vec<(u64, String)> {
    struct Plain {
        offset: u64,
        head: String,
        lines: Vec<String>,
        is_partial: bool,
        is_undecoded: bool,
        trace: super::super::stack_trace::TraceState,
    }
    let mut open: [Option<Plain>; 3] = [None, None, None];
    let (mut done, mut offset) = (Vec::new(), 0);
    let finish = |event: Plain, flags: u8, done: &mut Vec<(u64, String)>| {
        let text = event.lines.join("\n");
        let mark = if event.is_undecoded { "?" } else { "" };
        done.push((event.offset, format!("{} {flags} {}{mark}", event.head, text.as_bytes().escape_ascii())));
    };
    for line in
        lines.iter().map(|line| &line[..line.len() - 1]).chain([rest].into_iter().filter(|rest| !rest.is_empty()))
    {
        let parts: Vec<&str> = line.splitn(4, ' ').collect();
        let (slot, head, text, is_partial) = match parts.as_slice() {
            [time, stream @ ("stdout" | "stderr"), tag @ ("P" | "F"), text] => {
                let second: u32 = time[17..19].parse().unwrap();
                (usize::from(*stream == "stderr"), format!("{} {stream}", (second - 20) * 1_000), *text, *tag == "P")
            }
            _ => (2, "- -".to_owned(), line, false),
        };
        match &mut open[slot] {
            Some(event) if event.is_partial => {
                event.lines.last_mut().unwrap().push_str(text);
                event.is_partial = is_partial;
            }
            event => {
                let continued = event.as_ref().and_then(|event| {
                    multiline.continued(event.trace, event.lines.last().unwrap().as_bytes(), text.as_bytes())
                });
                if let (Some(trace), Some(event)) = (continued, event.as_mut()) {
                    event.trace = trace;
                    event.lines.push(text.to_owned());
                    event.is_partial = is_partial;
                } else {
                    if let Some(event) = event.take() {
                        finish(event, 0, &mut done);
                    }
                    *event = Some(Plain {
                        offset,
                        head,
                        lines: vec![text.to_owned()],
                        is_partial,
                        is_undecoded: slot == 2,
                        trace: multiline.begin(text.as_bytes()),
                    });
                }
            }
        }
        if multiline.is_off()
            && let Some(event) = open[slot].take_if(|event| !event.is_partial)
        {
            finish(event, if offset as usize == lines.concat().len() { Flags::UNTERMINATED } else { 0 }, &mut done);
        }
        offset += line.len() as u64 + 1;
    }
    for (slot, event) in open.into_iter().enumerate() {
        let Some(event) = event else { continue };
        let is_rest = slot == 2 && !rest.is_empty();
        let flags = if event.is_partial || is_rest { Flags::UNTERMINATED } else { 0 };
        finish(event, flags, &mut done);
    }
    done.sort();
    done
}

fn any_line() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        Just("begin x".to_owned()),
        Just("\tat a.b".to_owned()),
        Just("panic: x".to_owned()),
        Just(String::new()),
        Just("more".to_owned()),
    ];
    let line = (
        20_u32..60,
        prop_oneof![2 => Just("stdout"), 1 => Just("stderr")],
        prop_oneof![2 => Just("F"), 1 => Just("P")],
        text,
    )
        .prop_map(|(second, stream, tag, text)| cri(second, stream, tag, &text));
    prop_oneof![9 => line, 1 => Just("not in the format\n".to_owned())]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever the chunks are, the events are those of the whole file, each once, and so they are after a restart.
    #[test]
    fn chunks_give_the_events_of_the_whole_file(
        lines in prop::collection::vec(any_line(), 0..30),
        has_rest in any::<bool>(),
        growths in prop::collection::vec(1_usize..120, 1..40),
        restarts in prop::collection::vec(any::<bool>(), 40),
        multiline in prop_oneof![Just("off"), Just("auto"), Just("^begin")],
        room in prop_oneof![Just(usize::MAX), 200_usize..900],
    ) {
        let rest = if has_rest { "unterminated" } else { "" };
        let text = lines.concat() + rest;
        let multiline = Multiline::parse(multiline).unwrap();
        let new_reader = || EventReader::new(multiline.clone(), 1 << 20);
        let (mut reader, mut file) = (new_reader(), FileLines::new(Some(ContainerFormat::Any)));
        let (mut consumed, mut available, mut found) = (0, 0, Vec::new());
        let mut is_cut = false;
        for step in 0.. {
            let growth = growths[step % growths.len()];
            available = (available + growth).min(text.len());
            let is_end = available == text.len() && step > growths.len();
            if restarts[step % restarts.len()] {
                (reader, file) = (new_reader(), FileLines::new(Some(ContainerFormat::Any)));
            }
            let mut sink = Collected { room, ..Collected::default() };
            let part = ChunkText { offset: consumed as u64, is_end, ..chunk(&text.as_bytes()[consumed..available]) };
            let read = reader.read(&mut file, part, &mut sink);
            prop_assert!(!read.is_cut_short || read.consumed > 0);
            is_cut |= read.is_cut_short && sink.events.iter().any(|(_, event)| event.contains(" 1 "));
            consumed += read.consumed;
            found.extend(sink.events);
            if is_end && consumed == text.len() {
                break;
            }
            prop_assert!(step < 10_000);
        }
        // A small room may cut an event; then only the bytes are compared.
        found.sort();
        if !is_cut {
            prop_assert_eq!(found, oracle(&lines, rest, &multiline));
        }
    }
}

#[test]
fn lists_of_attributes_are_passed_on() {
    let text = br#"{"log":"x\n","stream":"stdout","attrs":{"tag":"a"},"time":"2023-11-14T22:13:20Z"}
"#;
    assert_eq!(read_chunk("off", chunk(text)).0, ["0 stdout 0 x+tag"]);
    assert!(Arc::<AttributeList>::default().is_empty());
}
