//! Columnar blocks: arbitrary trees and frames give an error or a text within bounded time and memory; any encoded text
//! round-trips, and a search of its columns agrees with a search of its lines.
#![no_main]
use std::ops::ControlFlow;

use bucksaw_binary::put_varint;
use bucksaw_columns::{ColumnBlock, Encoder, Filter, TextEncoding};
use bucksaw_search::{Automaton, CancelPoll, Needle, RowSet, SearchBlock, Transition};
use libfuzzer_sys::fuzz_target;

/// A block of the given tree and one frame.
fn pack_block(tree: &[u8], frame: &[u8]) -> Vec<u8> {
    let compress = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).expect("memory");
    let (packed_tree, packed_frame) = (compress(tree), compress(frame));
    let mut out = Vec::new();
    for length in [tree.len(), packed_tree.len(), 1, packed_frame.len(), frame.len()] {
        put_varint(&mut out, length as u64);
    }
    [out, packed_tree, packed_frame].concat()
}

fn any_bytes(data: &[u8]) {
    let [rows, text_len, tree_len, rest @ ..] = data else { return };
    let (tree, frame) = rest.split_at((*tree_len as usize).min(rest.len()));
    let Some(block) = ColumnBlock::open(pack_block(tree, frame), *rows as usize, *text_len as usize * 16) else {
        return;
    };
    let text = block.text();
    assert!(text.is_none_or(|text| text.len() == *text_len as usize * 16));
    for (needle, any_case) in [(b"a".as_slice(), false), (b"1-2", false), (b"aB c", true)] {
        let _ = block.find(&Needle::new(needle, any_case), &CancelPoll::never());
    }
    let _ = block.find_literal_prefix(&Needle::new(b"1", false), &two_digits(), &CancelPoll::never());
    let _ = block.find_accepted(&two_digits(), &RowSet::All, &CancelPoll::never());
    let _ = block.visit_rows(0..*rows as usize + 1, &mut |_| ControlFlow::Continue(()));
}

/// Accepts lines with two consecutive digits.
fn two_digits() -> Automaton {
    let classes = std::array::from_fn(|byte| u8::from((byte as u8).is_ascii_digit()));
    let transition = |after_digit: bool, byte: u8| match (after_digit, byte.is_ascii_digit()) {
        (true, true) => Some(Transition::Matched),
        (_, is_digit) => Some(Transition::To(is_digit)),
    };
    Automaton::explore(classes, false, transition, |_| Some(false)).expect("two states")
}

fn any_text(data: &[u8]) {
    let [from, len, any_case, lines @ ..] = data else { return };
    let mut text = Vec::new();
    while text.len() < 20_000 && !lines.is_empty() {
        text.extend_from_slice(lines);
        text.push(b'\n');
    }
    let count = text.iter().filter(|byte| **byte == b'\n').count();
    // The values of attributes are lines of other classes.
    let class_count = 1 + u16::from(any_case / 2 % 4);
    let classes: Vec<u16> = (0..class_count).cycle().take(if class_count > 1 { count } else { 0 }).collect();
    let packed = Encoder::new().encode(&text, &classes, 1);
    let (start, any_case) = (*from as usize % text.len().max(1), *any_case % 2 == 1);
    let needle = text.get(start..start + *len as usize % 32).unwrap_or_default();
    let needle = needle.split(|byte| *byte == b'\n').next().unwrap_or_default();
    assert!(Filter::new(&packed.filter).may_contain(needle, any_case));
    let TextEncoding::Columns(columns) = packed.text else { return };
    let block = ColumnBlock::open(columns, count, text.len()).expect("an encoded block opens");
    let found = block.find(&Needle::new(needle, any_case), &CancelPoll::never()).expect("an encoded block decodes");
    let prefix = Needle::new(needle, false);
    let prefix_rows =
        block.find_literal_prefix(&prefix, &two_digits(), &CancelPoll::never()).expect("an encoded block decodes");
    let accepted =
        block.find_accepted(&two_digits(), &RowSet::All, &CancelPoll::never()).expect("an encoded block decodes");
    let fold = |text: &[u8]| if any_case { text.to_ascii_lowercase() } else { text.to_vec() };
    let wanted = fold(needle);
    for (row, line) in text.split(|byte| *byte == b'\n').take(count).enumerate() {
        let is_in = wanted.is_empty() || fold(line).windows(wanted.len()).any(|window| window == wanted);
        let is_found = found.contains(row);
        assert_eq!(is_found, is_in);
        let has_digits = |line: &[u8]| line.windows(2).any(|pair| pair.iter().all(u8::is_ascii_digit));
        assert_eq!(accepted.contains(row), has_digits(line));
        // The longest rest of the line follows the first occurrence.
        let first = (0..=line.len()).find(|at| line[*at..].starts_with(needle));
        assert!(prefix_rows.contains(row) || !first.is_some_and(|at| has_digits(&line[at..])));
        assert!(first.is_some() || !prefix_rows.contains(row));
    }
}

fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        Some((first, rest)) if first % 2 == 0 => any_bytes(rest),
        Some((_, rest)) => any_text(rest),
        None => {}
    }
});
