//! Blocks of columns: a tree and frames of any bytes give an error or a text, never a panic, a hang or much memory; any
//! text comes back, and what is found in its columns is what is in its lines.
#![no_main]
use std::ops::ControlFlow;

use bucksaw_columns::{Automaton, Block, Encoder, Filter, Needle, Rows, Step, Text};
use libfuzzer_sys::fuzz_target;

fn put(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A block of this tree and one frame.
fn block(tree: &[u8], frame: &[u8]) -> Vec<u8> {
    let pack = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).expect("memory");
    let (packed_tree, packed_frame) = (pack(tree), pack(frame));
    let mut out = Vec::new();
    put(&mut out, tree.len());
    put(&mut out, packed_tree.len());
    put(&mut out, 1);
    put(&mut out, packed_frame.len());
    put(&mut out, frame.len());
    [out, packed_tree, packed_frame].concat()
}

fn any_bytes(data: &[u8]) {
    let [rows, text_len, tree_len, rest @ ..] = data else { return };
    let (tree, frame) = rest.split_at((*tree_len as usize).min(rest.len()));
    let Some(block) = Block::open(block(tree, frame), *rows as usize, *text_len as usize * 16) else { return };
    let text = block.text();
    assert!(text.is_none_or(|text| text.len() == *text_len as usize * 16));
    for (needle, any_case) in [(b"a".as_slice(), false), (b"1-2", false), (b"aB c", true)] {
        let _ = block.find(&Needle::new(needle, any_case));
    }
    let _ = block.find_head(&Needle::new(b"1", false), &two_digits());
    let _ = block.accepted(&two_digits(), &Rows::All);
    let _ = block.each_line(0..*rows as usize + 1, &mut |_| ControlFlow::Continue(()));
}

/// Accepts lines with two digits one after the other.
fn two_digits() -> Automaton {
    let classes = std::array::from_fn(|byte| u8::from((byte as u8).is_ascii_digit()));
    let step = |after_digit: bool, byte: u8| match (after_digit, byte.is_ascii_digit()) {
        (true, true) => Some(Step::Matched),
        (_, is_digit) => Some(Step::To(is_digit)),
    };
    Automaton::explore(classes, false, step, |_| Some(false)).expect("two states")
}

fn any_text(data: &[u8]) {
    let [from, len, any_case, lines @ ..] = data else { return };
    let mut text = Vec::new();
    while text.len() < 20_000 && !lines.is_empty() {
        text.extend_from_slice(lines);
        text.push(b'\n');
    }
    let count = text.iter().filter(|byte| **byte == b'\n').count();
    let packed = Encoder::new().encode(&text, 1);
    let (start, any_case) = (*from as usize % text.len().max(1), *any_case % 2 == 1);
    let needle = text.get(start..start + *len as usize % 32).unwrap_or_default();
    let needle = needle.split(|byte| *byte == b'\n').next().unwrap_or_default();
    assert!(Filter::new(&packed.filter).may_contain(needle, any_case));
    let Text::Columns(columns) = packed.text else { return };
    let block = Block::open(columns, count, text.len()).expect("what was packed opens");
    let found = block.find(&Needle::new(needle, any_case)).expect("what was packed is whole");
    let head = Needle::new(needle, false);
    let heads = block.find_head(&head, &two_digits()).expect("what was packed is whole");
    let accepted = block.accepted(&two_digits(), &Rows::All).expect("what was packed is whole");
    let fold = |text: &[u8]| if any_case { text.to_ascii_lowercase() } else { text.to_vec() };
    let wanted = fold(needle);
    for (row, line) in text.split(|byte| *byte == b'\n').take(count).enumerate() {
        let is_in = wanted.is_empty() || fold(line).windows(wanted.len()).any(|window| window == wanted);
        let is_found = found.has(row);
        assert_eq!(is_found, is_in);
        let has_digits = |line: &[u8]| line.windows(2).any(|pair| pair.iter().all(u8::is_ascii_digit));
        assert_eq!(accepted.has(row), has_digits(line));
        // The first place of it has the most behind it.
        let first = (0..=line.len()).find(|at| line[*at..].starts_with(needle));
        assert!(heads.has(row) || !first.is_some_and(|at| has_digits(&line[at..])));
        assert!(first.is_some() || !heads.has(row));
    }
}

fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        Some((first, rest)) if first % 2 == 0 => any_bytes(rest),
        Some((_, rest)) => any_text(rest),
        None => {}
    }
});
