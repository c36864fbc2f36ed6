//! Any text round-trips, and a search of its columns agrees with a search of its lines.

use std::ops::ControlFlow;

use bucksaw_search::{Automaton, CancelPoll, Needle, RowSet, SearchBlock, Transition};
use proptest::prelude::*;

use crate::encode::verify::has_text;
use crate::{ColumnBlock, Encoder, Filter, TextEncoding};
use text::{lines_of, random};

pub(crate) mod text;

fn encode(text: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let encoded = Encoder::with_smallest_tables().encode_always(text, &[], 1);
    let TextEncoding::Columns(columns) = encoded.text else { panic!("not encoded as columns") };
    (columns, encoded.filter)
}

fn collect_lines(block: &ColumnBlock, rows: impl Iterator<Item = usize>) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    block.visit_lines(rows, &mut |line| {
        text.extend_from_slice(line);
        ControlFlow::Continue(())
    })?;
    Some(text)
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.strip_suffix(b"\n").map_or(Vec::new(), |text| text.split(|byte| *byte == b'\n').collect())
}

fn check(text: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (packed, filter) = encode(text);
    let block = ColumnBlock::open(packed.clone(), lines(text).len(), text.len()).unwrap();
    assert!(
        block.text().unwrap() == text,
        "{:?} came back as {:?}",
        lossy_text(text),
        lossy_text(&block.text().unwrap())
    );
    (packed, filter)
}

fn lossy_text(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

fn check_find(text: &[u8], block: &ColumnBlock, filter: &[u8], needle: &[u8], any_case: bool) {
    let found = block.find(&Needle::new(needle, any_case), &CancelPoll::never()).unwrap();
    let fold = |text: &[u8]| if any_case { text.to_ascii_lowercase() } else { text.to_vec() };
    let may = Filter::new(filter).may_contain(needle, any_case);
    for (row, line) in lines(text).into_iter().enumerate() {
        let want = memchr::memmem::find(&fold(line), &fold(needle)).is_some();
        for byte in line {
            assert!(Filter::new(filter).may_contain_byte(*byte), "{byte} is filtered in {:?}", lossy_text(line));
        }
        assert!(may || !want, "{:?} is filtered in {:?}", lossy_text(needle), lossy_text(line));
        let got = found.contains(row);
        assert_eq!(
            got,
            want,
            "{:?} any case {any_case} in {:?} of {:?}",
            lossy_text(needle),
            lossy_text(line),
            lossy_text(text)
        );
    }
}

/// A text of similar lines, such as logs.
fn log_text() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        "[a-c]{1,9}".prop_map(String::into_bytes),
        "(GET|POST|ok|a b c|x=y)".prop_map(String::into_bytes),
        (0_u64..200).prop_map(|number| number.to_string().into_bytes()),
        any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        "[0-9]{3}-[0-9]{2}".prop_map(String::into_bytes),
        "[0-9]{1,3}(\\.[0-9]{1,3}){3}".prop_map(String::into_bytes),
        "[0-9a-f]{12}".prop_map(String::into_bytes),
        "[0-9a-f]{7}".prop_map(String::into_bytes),
        "[0-9A-F]{6}".prop_map(String::into_bytes),
        "(a|b)-[0-9]{1,2}\\.[0-9]{1,3}".prop_map(String::into_bytes),
        "/[ab]/[0-9]{1,2}[xy]".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>().prop_filter("no LF", |byte| *byte != b'\n'), 0..6),
    ];
    let template = prop_oneof![
        Just("_ [_] _: _"),
        Just("{\"k\":\"_\",\"n\":_}"),
        Just("a=_ b=\"_\" _"),
        Just("_"),
        Just("_-_:_ \"_ _\" _"),
        Just("_=_ \"_\":_"),
        Just(""),
    ];
    prop::collection::vec((template, prop::collection::vec(word, 6)), 0..40).prop_map(|rows| {
        let mut text = Vec::new();
        for (template, words) in rows {
            let mut words = words.into_iter();
            for byte in template.bytes() {
                match byte {
                    b'_' => text.extend(words.next().unwrap_or_default()),
                    byte => text.push(byte),
                }
            }
            text.push(b'\n');
        }
        text
    })
}

/// Needles longer than the sets of bits by which short ones are searched.
#[test]
fn long_needles_over_many_columns_are_found() {
    let line = |row: u32| {
        format!(
            "took {row} ms, user=u{} path=/a/{}/b id={:08x} note=\"{}\" at 10:{:02}:{:02} {}",
            row % 7,
            row % 3,
            row.wrapping_mul(0x9e37_79b9) | 1 << 31,
            "n".repeat(60 + row as usize % 9),
            row % 60,
            row % 13,
            "long words of one kind ".repeat(3)
        )
    };
    let text: Vec<u8> = (0..300).flat_map(|row| (line(row) + "\n").into_bytes()).collect();
    let (packed, filter) = check(&text);
    let block = ColumnBlock::open(packed, 300, text.len()).unwrap();
    for row in [0, 17, 250] {
        let line = line(row);
        for (start, length) in [(0, line.len()), (3, 64), (7, 65), (5, 90), (20, 128), (40, 63), (60, 100)] {
            check_find(&text, &block, &filter, &line.as_bytes()[start..(start + length).min(line.len())], row == 17);
        }
    }
}

/// For each state, the next state by class of byte, and whether a line that ends in it is accepted. The two highest states
/// are "dead" and "matched".
type TransitionTable = Vec<([u8; 6], bool)>;

fn table() -> impl Strategy<Value = TransitionTable> {
    let states = 1_u8..6;
    states.prop_flat_map(|states| {
        prop::collection::vec((prop::array::uniform6(0..states + 2), any::<bool>()), states as usize)
    })
}

fn class(byte: u8) -> usize {
    match byte {
        b'0'..=b'4' => 0,
        b'5'..=b'9' => 1,
        b'a' | b'A' => 2,
        b'b' | b'/' | b'[' => 3,
        b' ' | b'-' | b'"' => 4,
        _ => 5,
    }
}

fn table_step(table: &TransitionTable, state: u8, byte: u8) -> Transition<u8> {
    let to = table[state as usize].0[class(byte)];
    match (to as usize).checked_sub(table.len()) {
        None => Transition::To(to),
        Some(0) => Transition::Dead,
        Some(_) => Transition::Matched,
    }
}

fn is_accepted(table: &TransitionTable, line: &[u8]) -> bool {
    let mut state = 0;
    for byte in line {
        match table_step(table, state, *byte) {
            Transition::To(to) => state = to,
            end => return end == Transition::Matched,
        }
    }
    table[state as usize].1
}

fn automaton(table: &TransitionTable) -> Automaton {
    let classes = std::array::from_fn(|byte| class(byte as u8) as u8);
    let at_end = |state: u8| Some(table[state as usize].1);
    Automaton::explore(classes, 0, |state, byte| Some(table_step(table, state, byte)), at_end).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn literal_prefixes_are_found(text in log_text(), table in table(), places in prop::collection::vec((any::<prop::sample::Index>(), 1_usize..12), 8)) {
        let (packed, _) = encode(&text);
        let block = ColumnBlock::open(packed, lines(&text).len(), text.len()).unwrap();
        let automaton = automaton(&table);
        for (place, len) in places {
            let start = place.index(text.len() + 1);
            let head: Vec<u8> = text[start..(start + len).min(text.len())].to_vec();
            let head: Vec<u8> = head.into_iter().filter(|byte| *byte != b'\n').collect();
            let found = block.find_literal_prefix(&Needle::new(&head, false), &automaton, &CancelPoll::never()).unwrap();
            for (row, line) in lines(&text).into_iter().enumerate() {
                let mut heads = (0..=line.len()).filter(|at| line[*at..].starts_with(&head)).peekable();
                let (has_head, got) = (heads.peek().is_some(), found.contains(row));
                let matches = heads.any(|at| is_accepted(&table, &line[at..]));
                let context = format!("{:?} in {:?} of {:?}", lossy_text(&head), lossy_text(line), lossy_text(&text));
                prop_assert!((got || !matches) && (has_head || !got), "{} {}: {}", got, matches, context);
            }
        }
    }

    #[test]
    fn automata_on_columns_agree_with_lines(text in log_text(), table in table(), among in any::<[bool; 7]>()) {
        let (packed, _) = encode(&text);
        let block = ColumnBlock::open(packed, lines(&text).len(), text.len()).unwrap();
        let automaton = automaton(&table);
        let all = block.find_accepted(&automaton, &RowSet::All, &CancelPoll::never()).unwrap();
        let some = RowSet::from_fn(block.rows(), |row| among[row % 7]);
        let of_some = block.find_accepted(&automaton, &some, &CancelPoll::never()).unwrap();
        for (row, line) in lines(&text).into_iter().enumerate() {
            let want = is_accepted(&table, line);
            prop_assert_eq!(all.contains(row), want, "{:?} of {:?}", lossy_text(line), lossy_text(&text));
            prop_assert_eq!(of_some.contains(row), want && some.contains(row), "{:?} among some of {:?}", lossy_text(line), lossy_text(&text));
        }
    }

    #[test]
    fn logs_round_trip_and_are_searched(text in log_text(), places in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..30, any::<bool>(), any::<u8>()), 8)) {
        let (packed, filter) = check(&text);
        let block = ColumnBlock::open(packed, lines(&text).len(), text.len()).unwrap();
        for (place, len, any_case, change) in places {
            let start = place.index(text.len() + 1);
            let mut needle = text[start..(start + len).min(text.len())].to_vec();
            if change < 64 && !needle.is_empty() {
                let at = change as usize % needle.len();
                needle[at] = needle[at].wrapping_add(change % 3);
            }
            if any_case && change > 128 {
                needle.make_ascii_uppercase();
            }
            let needle: Vec<u8> = needle.into_iter().filter(|byte| *byte != b'\n').collect();
            check_find(&text, &block, &filter, &needle, any_case);
        }
    }

    #[test]
    fn selected_lines_round_trip(text in log_text(), among in any::<[bool; 7]>()) {
        let (packed, _) = encode(&text);
        let block = ColumnBlock::open(packed, lines(&text).len(), text.len()).unwrap();
        let picked = || (0..block.rows()).filter(|row| among[row % 7]);
        let want = picked().map(|row| [lines(&text)[row], b"\n"].concat());
        prop_assert_eq!(lossy_text(&collect_lines(&block, picked()).unwrap()), lossy_text(&want.collect::<Vec<_>>().concat()));
        prop_assert!(collect_lines(&block, std::iter::once(block.rows())).is_none(), "a row out of range");
    }

    #[test]
    fn any_bytes_round_trip(mut text in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'"'), Just(b'1')], 0..400)) {
        if text.last().is_some_and(|last| *last != b'\n') {
            text.push(b'\n');
        }
        check(&text);
    }

    #[test]
    fn damage_gives_an_error_or_other_text(text in log_text(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let (mut packed, _) = encode(&text);
        for (place, byte) in changes {
            let at = place.index(packed.len());
            packed[at] = byte;
        }
        if let Some(block) = ColumnBlock::open(packed, lines(&text).len(), text.len()) {
            let _ = block.text();
            let _ = collect_lines(&block, (0..block.rows()).step_by(3));
            let _ = block.find(&Needle::new(b"a", false), &CancelPoll::never());
            let _ = block.find(&Needle::new(b"1-", true), &CancelPoll::never());
            let _ = block.find_literal_prefix(&Needle::new(b"a", false), &digits(), &CancelPoll::never());
            let _ = block.find_accepted(&digits(), &RowSet::All, &CancelPoll::never());
        }
    }
}

/// Accepts lines with three consecutive digits.
fn digits() -> Automaton {
    let classes = std::array::from_fn(|byte| u8::from((byte as u8).is_ascii_digit()));
    let step = |state: u8, byte: u8| match (state, byte.is_ascii_digit()) {
        (2, true) => Some(Transition::Matched),
        (_, true) => Some(Transition::To(state + 1)),
        _ => Some(Transition::To(0)),
    };
    Automaton::explore(classes, 0, step, |_| Some(false)).unwrap()
}

/// Checks that a text is encoded as columns or by zstd, as expected, and hardly larger than by zstd. The filter of dense text
/// counts too.
fn check_choice(name: &str, text: &[u8], level: i32, want: bool) {
    let zstd: usize = text.chunks(4 << 20).map(|part| zstd::bulk::compress(part, level).unwrap().len()).sum();
    let packed = Encoder::new().encode(text, &[], level);
    assert_eq!(matches!(packed.text, TextEncoding::Columns(_)), want, "{name}");
    let (bytes, back) = match packed.text {
        TextEncoding::Columns(columns) => {
            (columns.len(), ColumnBlock::open(columns, lines(text).len(), text.len()).unwrap().text().unwrap())
        }
        TextEncoding::Zstd(packed) => (packed.len(), zstd::bulk::decompress(&packed, text.len()).unwrap()),
        TextEncoding::Plain => (text.len(), text.to_vec()),
    };
    assert!(back == text, "{name}");
    assert!(bytes <= (zstd * 102 / 100).min(text.len()), "{name}: {bytes} of {zstd}");
    if !want && zstd * 4 > text.len() {
        // The filter of up to a megabyte of packed text may take 16 kB.
        let most = (zstd * 102 / 100).max(bytes + (16 << 10) + 41);
        assert!(bytes + packed.filter.len() <= most, "{name}: {bytes} and {} of {zstd}", packed.filter.len());
    }
    assert!(lines(text).iter().all(|line| Filter::new(&packed.filter).may_contain(line, false)), "{name}");
}

#[test]
fn columns_are_chosen_where_they_are_smaller() {
    let mut next = random();
    let mut text = |line: &mut dyn FnMut(&mut dyn FnMut() -> u64) -> String| {
        lines_of(1 << 20, || line(&mut || next(1 << 31)) + "\n")
    };
    let base64 = |number: u64| {
        char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[number as usize % 64])
    };
    let check = |name: &str, text: &[u8], want: bool| check_choice(name, text, 1, want);
    check("times", &text(&mut |next| format!("2026-11-21 10:{:02}:00 took {} ms", next() % 60, next() % 500)), true);
    check("base64", &text(&mut |next| (0..76).map(|_| base64(next())).collect()), false);
    check("one line", &text(&mut |next| (0..1 << 20).map(|_| base64(next())).collect()), false);
    check(
        "words",
        &text(&mut |next| (0..8 + next() % 20).map(|_| format!("{:x} ", next() % 5_000 * 7_919)).collect()),
        false,
    );
    check("short lines", &text(&mut |next| (next() % 10).to_string()), false);
    let layout =
        |bits: u64| -> String { (0..17).map(|bit| if bits >> bit & 1 == 1 { "a [" } else { "b, " }).collect() };
    check("100,000 shapes", &text(&mut |next| layout(next() % 100_000)), false);
    let word = |next: &mut dyn FnMut() -> u64| -> String { (0..next() % 9).map(|_| base64(next())).collect() };
    let words = text(&mut |next| (0..200).map(|_| word(next) + " ").collect());
    check("words that do not recur", &words, false);
    check("the same words four times", &text(&mut |next| (0..99).map(|_| word(next) + " ").collect()).repeat(4), false);
    check("random bytes", &text(&mut |next| (0..60).map(|_| char::from(next() as u8 | 1)).collect()), false);
    check("the same line", &text(&mut |_| "always and ever the same line".to_owned()), true);
    check("digits", &text(&mut |next| format!("number {}", next() % 100_000_000)), true);
    let nested = |depth: usize| format!("{}1{}", "{\"a\":[".repeat(depth), "]}".repeat(depth));
    let long = |next: &mut dyn FnMut() -> u64| {
        (0..300).map(|at| format!("\"key{at:0>60}\": {}, ", next() % 10)).collect::<String>()
    };
    check("long lines", &text(&mut |next| long(next)), true);
    check("nested", &text(&mut |next| nested(next() as usize % 40)), true);
}

/// Text whose columns would be small but take too long is packed by zstd, wherever its expensive part is.
#[test]
fn text_over_the_work_budget_is_left_to_zstd() {
    const BYTES: usize = 2 << 20;
    let mut next = random();
    let layouts: Vec<Vec<&str>> =
        (0..40).map(|_| (0..100).map(|_| [" ", ",", ";", " [", "] "][next(5) as usize]).collect()).collect();
    let mut tokens = |bytes: usize| {
        lines_of(bytes, || {
            let gaps = &layouts[next(40) as usize];
            gaps.iter().map(|gap| format!("{}{gap}", next(10))).chain(["\n".to_owned()]).collect()
        })
    };
    let log = |bytes: usize| {
        let mut row = 0_u64;
        lines_of(bytes, || {
            row += 1;
            let (id, page) = (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40, row * row % 97);
            format!(
                "2026-11-21 10:{:02}:{:02} INFO [pool-{}] GET /page/{page} took {} ms id={id:06x}\n",
                row / 60 % 60,
                row % 60,
                row % 7,
                row * 7_919 % 800
            )
        })
    };
    check_choice("tokens", &tokens(BYTES), 3, false);
    check_choice("log", &log(BYTES), 3, true);
    check_choice("log, then tokens", &[log(BYTES / 4), tokens(BYTES * 3 / 4)].concat(), 3, false);
    check_choice("tokens, then log", &[tokens(BYTES * 3 / 4), log(BYTES / 4)].concat(), 3, false);
    check_choice(
        "a log among tokens",
        &[tokens(BYTES * 3 / 8), log(BYTES / 4), tokens(BYTES * 3 / 8)].concat(),
        3,
        false,
    );
    check_choice("a log, and some tokens", &[log(BYTES / 2), tokens(BYTES / 1024), log(BYTES / 2)].concat(), 3, true);
    let mut row = 0;
    let alike = lines_of(BYTES, || {
        row += 1;
        (0..300).map(|at| format!("x{:03x} ", (row * 7_919 + at) % 4_000)).chain(["\n".to_owned()]).collect()
    });
    check_choice("columns that are alike", &alike, 3, false);
}

#[test]
fn odd_texts_round_trip() {
    check(b"");
    check(b"\n");
    check(b"\n\n\n");
    // A search that looks beyond its line would take time quadratic in the text.
    check(&b"\n".repeat(1 << 20));
    check(&b"\"\n".repeat(1 << 18));
    check(&b"\\ \n".repeat(1 << 18));
    check(&b"the same line\n".repeat(1_000));
    check(&[b"x".repeat(1 << 20), b"\n".to_vec()].concat());
    let mut text = Vec::new();
    for row in 0..5_000_u32 {
        let layout: String = (0..16).map(|bit| if row >> bit & 1 == 1 { "a " } else { "b," }).collect();
        text.extend_from_slice(format!("{layout}{row}\n").as_bytes());
    }
    check(&text);
}

/// Batches of lines are smaller where some lines are very long.
#[test]
fn long_lines_among_short_ones_round_trip() {
    let line = |row: usize| match row % 97 {
        5 => format!("{row} {}\n", format!("k{row}=v, ").repeat(20_000 + row)),
        _ => format!("2026-11-21 {row:05} took {} ms at {:08x}\n", row * row % 1_009, row * 40_503),
    };
    let text: String = (0..1_500).map(line).collect();
    let (packed, _) = check(text.as_bytes());
    let block = ColumnBlock::open(packed, 1_500, text.len()).unwrap();
    for step in [2, 97] {
        let picked = || (5..1_500).step_by(step);
        let want: String = picked().map(line).collect();
        assert!(collect_lines(&block, picked()).unwrap() == want.as_bytes(), "every {step}");
    }
}

/// The rows in which `head` is found as a literal prefix, of which a match continues with digits and `end`.
fn lines_with_head(lines: &[String], head: &[u8], end: u8) -> Vec<usize> {
    let classes = std::array::from_fn(|byte| match byte as u8 {
        b'0'..=b'9' => 1,
        byte if byte == end => 2,
        byte => head.iter().position(|of_head| *of_head == byte).map_or(0, |at| at as u8 + 3),
    });
    let step = |state: usize, byte: u8| {
        Some(match byte {
            _ if head.get(state) == Some(&byte) => Transition::To(state + 1),
            b'0'..=b'9' if state == head.len() => Transition::To(state),
            byte if state == head.len() && byte == end => Transition::Matched,
            _ => Transition::Dead,
        })
    };
    let automaton = Automaton::explore(classes, 0, step, |_| Some(false)).unwrap();
    let text = lines.concat();
    let (packed, _) = encode(text.as_bytes());
    let block = ColumnBlock::open(packed, lines.len(), text.len()).unwrap();
    let found = block.find_literal_prefix(&Needle::new(head, false), &automaton, &CancelPoll::never()).unwrap();
    (0..lines.len()).filter(|row| found.contains(*row)).collect()
}

#[test]
fn an_automaton_runs_over_selected_lines() {
    // The dictionary has few values compared with all lines, and many compared with the selected ones.
    let mut random = random();
    let mut word = || (0..12).map(|_| char::from(b'a' + random(8) as u8)).collect::<String>();
    let words: Vec<String> = (0..200).map(|_| word()).collect();
    let lines: Vec<String> = (0..5_000).map(|_| format!("{} by\n", words[random(200) as usize])).collect();
    let text = lines.concat();
    let (packed, _) = encode(text.as_bytes());
    let block = ColumnBlock::open(packed, lines.len(), text.len()).unwrap();
    let classes = std::array::from_fn(|byte| u8::from(byte as u8 == b'a'));
    let step = |count: u8, byte: u8| Some(Transition::To((count + u8::from(byte == b'a')) % 3));
    let automaton = Automaton::explore(classes, 0, step, |count| Some(count == 2)).unwrap();
    for modulus in [1, 2, 50, 97, 103, 150, 331, 4_999] {
        let some = RowSet::from_fn(lines.len(), |row| row % modulus == 0);
        let found = block.find_accepted(&automaton, &some, &CancelPoll::never()).unwrap();
        for (row, line) in lines.iter().enumerate() {
            let accepted = line.bytes().filter(|byte| *byte == b'a').count() % 3 == 2;
            assert_eq!(found.contains(row), accepted && some.contains(row), "{line:?}, one in {modulus}");
        }
    }
}

#[test]
fn literal_prefixes_without_a_match_are_excluded() {
    let names = ["a12", "anna", "a", "berta", "alogin", "a7 login=", "a77b", "x login="];
    let name = |row: usize| format!("{}{}", names[row % 8], if row % 8 == 1 { row.to_string() } else { String::new() });
    let line = |row: usize| match row % 2 {
        0 => format!("{row} by login=\"{}\" and {row}\n", name(row / 2)),
        _ => format!("login=\"{}\"\n", name(row / 2)),
    };
    let lines: Vec<String> = (0..3_000).map(line).collect();
    let want: Vec<usize> = (0..3_000).filter(|row| matches!(row / 2 % 8, 0 | 2)).collect();
    assert_eq!(lines_with_head(&lines, b"login=\"a", b'"'), want);
    // The prefix is in the middle of values.
    let mut random = random();
    let mut letters = |len: u64| (0..len).map(|_| char::from(b'a' + random(20) as u8)).collect::<String>();
    let line = |row: usize| format!("{row} {}zy{}{}\n", letters(9), ["q", "v", "zyv"][row % 3], letters(5));
    let lines: Vec<String> = (0..3_000).map(line).collect();
    let want: Vec<usize> = (0..3_000).filter(|row| row % 3 == 0).collect();
    assert_eq!(lines_with_head(&lines, b"zy", b'q'), want);
}

#[test]
fn joined_words_pass_the_filter() {
    let word = |number: u32| -> String {
        let mixed = number.wrapping_mul(0x9e37_79b1);
        (0..2 + mixed % 5).map(|at| char::from(b'a' + (mixed >> (at * 5 + 3)) as u8 % 26)).collect()
    };
    for joint in ['-', '.', '/', ':', '@'] {
        let line = |row: u32| format!("get {}{joint}{} in {}\n", word(row), word(row + 7_919), row % 7);
        let text: String = (0..3_000).map(line).collect();
        let (_, filter) = encode(text.as_bytes());
        for line in lines(text.as_bytes()) {
            for part in line.windows(8) {
                assert!(Filter::new(&filter).may_contain(part, false), "{:?} is filtered", lossy_text(part));
            }
        }
    }
}

/// The comparison detects a change of any byte, and of the line starts.
#[test]
fn changed_texts_are_detected() {
    let mut text = Vec::new();
    for row in 0..200_u32 {
        let line = match row % 3 {
            0 => format!("{row:04} took {} ms [{}]\n", row * row, row % 7),
            1 => format!("id={:06x} user=u{} \"a b\"\n", row.wrapping_mul(0x9e37_79b1) >> 8, row % 5),
            _ => format!("rare {}\n", "x,y ".repeat(row as usize % 50)),
        };
        text.extend_from_slice(line.as_bytes());
    }
    let starts = |text: &[u8]| -> Vec<u32> {
        [0].into_iter().chain(memchr::memchr_iter(b'\n', &text[..text.len() - 1]).map(|end| end as u32 + 1)).collect()
    };
    let (packed, _) = encode(&text);
    let open = || ColumnBlock::open(packed.clone(), 200, text.len()).unwrap();
    assert!(has_text(&open(), &text, &starts(&text)));
    let block = open();
    for at in 0..text.len() {
        let mut other = text.clone();
        other[at] ^= 1;
        assert!(!has_text(&block, &other, &starts(&other)), "byte {at}");
        assert!(!has_text(&block, &other, &starts(&text)), "byte {at}");
    }
    let longer = [text.as_slice(), b"\n"].concat();
    assert!(!has_text(&block, &longer, &starts(&longer)));
}

/// Adjacent values of a raw column are separated by an LF, which is no part of a value.
#[test]
fn a_needle_with_a_line_end_matches_no_line() {
    let mut next = random();
    let mut word = || -> String { (0..12).map(|_| char::from(b'g' + next(20) as u8)).collect() };
    let text: String = (0..200).map(|_| word() + "\n").collect();
    let (packed, _) = encode(text.as_bytes());
    let block = ColumnBlock::open(packed, 200, text.len()).unwrap();
    let needle = &text.as_bytes()[40..60];
    assert!(needle.contains(&b'\n'));
    assert_eq!(block.find(&Needle::new(needle, false), &CancelPoll::never()), Some(RowSet::None));
    let upper = needle.to_ascii_uppercase();
    assert_eq!(block.find(&Needle::new(&upper, true), &CancelPoll::never()), Some(RowSet::None));
}

/// The search of one needle visits all columns, and an automaton all tables: both stop where they are cancelled.
#[test]
fn a_search_of_many_layouts_stops_when_it_is_cancelled() {
    const ROWS: usize = 20_000;
    let mut next = random();
    let layouts: Vec<String> = (0..400).map(|_| (0..6).map(|_| char::from(b'g' + next(20) as u8)).collect()).collect();
    let line = |row: usize, next: &mut dyn FnMut(u64) -> u64| {
        let [a, b, c, d] = [0, 7, 19, 31].map(|step| &layouts[(row + step) % layouts.len()]);
        format!("{a}:{b} {} {c} {} {d}={}\n", next(10_000), next(100), next(1_000_000))
    };
    let text: String = (0..ROWS).map(|row| line(row, &mut next)).collect();
    let (packed, _) = encode(text.as_bytes());
    let block = ColumnBlock::open(packed, ROWS, text.len()).unwrap();
    let work = |search: &dyn Fn(&CancelPoll<'_>), cancel: &CancelPoll<'_>| {
        let before = block.work();
        search(cancel);
        block.work() - before
    };
    let find = |cancel: &CancelPoll<'_>| drop(block.find(&Needle::new(b"77 g", false), cancel).unwrap());
    let accept = |cancel: &CancelPoll<'_>| drop(block.find_accepted(&digits(), &RowSet::All, cancel).unwrap());
    for search in [&find as &dyn Fn(&CancelPoll<'_>), &accept] {
        search(&CancelPoll::never());
        let whole = work(search, &CancelPoll::never());
        let stopped = work(search, &CancelPoll::new(&|| true));
        assert!(stopped * 4 < whole, "{stopped} of {whole}");
    }
}

/// A text of several frames and batches, which the random texts are too short for.
#[test]
fn every_frame_and_batch_is_searched() {
    const ROWS: usize = 6_000;
    let mut next = random();
    let mut word = || -> String { (0..40).map(|_| char::from(b'g' + next(20) as u8)).collect() };
    let rows: Vec<[String; 4]> = (0..ROWS).map(|_| [word(), word(), word(), word()]).collect();
    let text: String = rows.iter().map(|row| row.join(" ") + "\n").collect();
    let (packed, _) = encode(text.as_bytes());
    let block = ColumnBlock::open(packed, ROWS, text.len()).unwrap();
    assert!(block.frame_count() > 3, "{}", block.frame_count());
    let all = lines(text.as_bytes());
    for row in (0..ROWS).step_by(97).chain([1, ROWS - 1]) {
        // Inside one word, from one word to the next, and the start and the end of the line.
        for range in [3..20, 35..52, 44..61, 85..102, 126..143, 0..9, 150..163] {
            let needle = &all[row][range];
            let found = block.find(&Needle::new(needle, false), &CancelPoll::never()).unwrap();
            let want = (0..ROWS).filter(|row| memchr::memmem::find(all[*row], needle).is_some());
            assert!(found.first_in(0..ROWS, ROWS).eq(want), "{:?} of row {row}", lossy_text(needle));
        }
    }
    for step in [1, 2, 3, 1_000] {
        let want: Vec<u8> = all.iter().step_by(step).flat_map(|line| line.iter().chain(b"\n")).copied().collect();
        assert!(collect_lines(&block, (0..ROWS).step_by(step)).unwrap() == want, "every {step}");
    }
}

/// Records with attributes: values of one class share tables, whatever the others look like, and repeated values are no
/// special case.
#[test]
fn lines_of_several_classes_round_trip() {
    let mut next = random();
    let (mut text, mut classes) = (Vec::new(), Vec::new());
    for row in 0..3_000_u64 {
        let level = if next(40) == 0 { "WARN" } else { "INFO" };
        let trace = format!("{:08x}{:08x}", next(1 << 31), next(1 << 31));
        let repeated = if row % 3 == 0 { "" } else { "a b" };
        let lines = [
            format!("GET /{} took {} ms and sent its answer to a client", next(50), next(900)),
            level.to_owned(),
            trace,
            repeated.to_owned(),
        ];
        for (class, line) in (0..).zip(lines) {
            // Some records lack an attribute.
            if class == 1 && row % 7 == 0 {
                continue;
            }
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
            classes.push(class);
        }
    }
    let encoded =
        [Encoder::new(), Encoder::with_smallest_tables()].map(|mut encoder| encoder.encode(&text, &classes, 1));
    for encoded in encoded {
        let TextEncoding::Columns(columns) = encoded.text else { panic!("no columns") };
        let block = ColumnBlock::open(columns, classes.len(), text.len()).unwrap();
        assert!(block.text().unwrap() == text);
        for needle in ["WARN", "INFO", "took 7", "a b", "GET /4"] {
            check_find(&text, &block, &encoded.filter, needle.as_bytes(), false);
        }
    }
    let one_class = Encoder::new().encode(&text, &[], 1);
    let (TextEncoding::Columns(apart), TextEncoding::Columns(mixed)) =
        (Encoder::new().encode(&text, &classes, 1).text, one_class.text)
    else {
        panic!("no columns")
    };
    assert!(apart.len() < mixed.len(), "{} and {}", apart.len(), mixed.len());
}

/// A web log in JSON strings has the layouts of the log, not one per number of words.
#[test]
fn lines_in_json_strings_become_columns() {
    let packed = [("", "", "\""), ("{\"app\":\"shop\",\"message\":\"", "\"}", "\\\"")].map(|(open, close, quote)| {
        let mut next = random();
        let text = lines_of(1 << 20, || {
            let (path, agent) = ("a/".repeat(next(9) as usize), "x; y ".repeat(next(20) as usize));
            let (minute, second, status) = (next(60), next(60), [200, 304, 404][next(3) as usize]);
            let quoted = format!("{quote}GET /{path}{} HTTP/1.1{quote}", next(40));
            let host = next(99);
            format!(
                "{open}10.0.0.{host} - [{minute:02}:{second:02}] {quoted} {status} {} {quote}M ({agent}){quote}{close}\n",
                next(9_000)
            )
        });
        let encoded = Encoder::new().encode(&text, &[], 3);
        let TextEncoding::Columns(columns) = encoded.text else { panic!("no columns: {open}") };
        let block = ColumnBlock::open(columns.clone(), lines(&text).len(), text.len()).unwrap();
        assert!(block.text().unwrap() == text);
        for needle in ["GET /a/a/a", "y x; y )", ") ", "\\\"GET", "10.0.0.77 -", "404 1"] {
            check_find(&text, &block, &encoded.filter, needle.as_bytes(), false);
        }
        columns.len()
    });
    assert!(packed[1] * 10 < packed[0] * 13, "{packed:?}");
}

/// Values with one key, which the mixing of a hash allows to craft: a chunk that equals its constant makes it forget what was
/// before.
#[test]
fn values_with_equal_hashes_come_back() {
    let forgotten = 0xe703_7ed1_a0b4_28db_u64.to_le_bytes();
    let mut text = Vec::new();
    for row in 0..4_000 {
        let value = if row % 2 == 0 { b"first..." } else { b"second.." };
        text.extend_from_slice(b"took \"");
        text.extend_from_slice(&[value, &forgotten[..], b"the same end\" ms\n"].concat());
    }
    let packed = match Encoder::new().encode(&text, &[], 1).text {
        TextEncoding::Columns(columns) => ColumnBlock::open(columns, 4_000, text.len()).unwrap().text().unwrap(),
        TextEncoding::Zstd(packed) => zstd::bulk::decompress(&packed, text.len()).unwrap(),
        TextEncoding::Plain => text.clone(),
    };
    assert!(packed == text);
}
