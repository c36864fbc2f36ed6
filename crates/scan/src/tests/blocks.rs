//! Search results over the blocks of stored segments, against a matcher that tests each record alone: the ids and bytes of
//! the records, in their order, ascending and newest first, with a limit.

use std::ops::{ControlFlow, Range};
use std::path::Path;

use bucksaw_env::{Fs as _, sim};
use bucksaw_record::expr::Literal;
use bucksaw_record::{Millis, Producer};
use bucksaw_search::SearchBlock;
use bucksaw_segment::stored::{Reader, SearchableBlock, SegmentOrigin, Writer};
use bucksaw_segment::{BlockBuilder, BlockFilter, Codec, FileHeader, StreamSlice};
use proptest::prelude::*;

use super::*;

/// A record in the order of ids.
#[derive(Clone, Debug, PartialEq)]
struct Record {
    id: Id,
    line: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Ascending,
    NewestFirst,
}

/// Lines of several layouts with constants, dictionaries, integers, fixed-width values and raw text.
fn line(row: usize, seed: u64) -> String {
    let mixed = (row as u64 + 1).wrapping_mul(seed | 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (status, user) = (200 + mixed % 3 * 100, (mixed >> 20) % 7);
    match mixed >> 61 {
        0..=2 => format!(
            "10:{:02}:{:02} GET /page/{user}/x{:x} took {} ms",
            row / 60 % 60,
            row % 60,
            mixed >> 52,
            mixed % 900
        ),
        3..=4 => format!("level=info user=u{user} status={status} id={:08x}", mixed >> 32),
        5..=6 => format!("{{\"level\":\"warn\",\"status\":{status},\"msg\":\"retry {} of user-{user}\"}}", mixed % 11),
        _ => format!("panic: {}", "qz ".repeat((mixed >> 30) as usize % 5)),
    }
}

fn stream(row: usize) -> &'static str {
    if row % 5 < 3 { "app=web" } else { "app=db" }
}

fn records(count: usize, seed: u64) -> Vec<Record> {
    let id = |row: usize| Id::new(Millis(row as u64 / 3), Producer::new(7), row as u32);
    (0..count).map(|row| Record { id: id(row), line: line(row, seed).into_bytes() }).collect()
}

/// A stored segment of the records, `block_rows` of them in each block.
fn segment(records: &[Record], block_rows: usize, codec: Codec) -> Reader {
    let path = Path::new("s");
    let file = sim::Fs::new().create(path).unwrap();
    let mut writer = Writer::start(Arc::clone(&file), FileHeader { id: Id::from_bits(1), version: 1 }).unwrap();
    for (block, some) in records.chunks(block_rows).enumerate() {
        let mut builder = BlockBuilder::default();
        for (at, record) in some.iter().enumerate() {
            let mut rows = Rows::default();
            rows.push_run(record.id, 1);
            let text = [&record.line[..], b"\n"].concat();
            builder.push(&Labels::parse(stream(block * block_rows + at)).unwrap(), &rows, 0..1, &text);
        }
        writer.append(&mut builder, codec).unwrap();
    }
    writer.seal(SegmentOrigin::default()).unwrap();
    Reader::open(file, path).unwrap()
}

/// The matching records of a block, at most `limit` of each stream, from the side at which the answer starts.
fn search_block(
    block: &impl SearchBlock,
    slices: &[(Labels, Arc<Rows>)],
    plan: &Plan,
    direction: Direction,
    limit: usize,
) -> Vec<Record> {
    let (mut found, mut start) = (Vec::new(), 0);
    let map = RecordMap::identity(block.row_count());
    for (labels, rows) in slices {
        let range: Range<usize> = start..start + rows.count as usize;
        start = range.end;
        let records = RecordBlock::new(block, &map).unwrap();
        let matching = plan.bind(labels).match_rows(records, RowSet::All, &|| false).unwrap();
        let picked: Vec<usize> = match direction {
            Direction::Ascending => matching.first_in(range.clone(), limit).collect(),
            Direction::NewestFirst => matching.last_in(range.clone(), limit),
        };
        let mut ids = picked.iter().map(|row| rows.id((row - range.start) as u32).unwrap());
        let visit = &mut |line: &[u8]| {
            found.push(Record { id: ids.next().unwrap(), line: line.strip_suffix(b"\n").unwrap().to_vec() });
            ControlFlow::Continue(())
        };
        block.visit_rows(picked.iter().copied(), visit).unwrap();
        assert!(ids.next().is_none());
    }
    found
}

/// The first `limit` matching records of a segment in the given direction.
fn search(segment: &Reader, plan: &Plan, direction: Direction, limit: usize) -> (Vec<Record>, usize) {
    let mut blocks: Vec<usize> = (0..segment.footer().blocks.len()).collect();
    if direction == Direction::NewestFirst {
        blocks.reverse();
    }
    let (mut answer, mut columnar) = (Vec::new(), 0);
    for block in blocks {
        let filter = segment.filter(block).unwrap();
        let filter = BlockFilter::new(&filter);
        if !segment.footer().streams.iter().any(|labels| plan.bind(labels).may_match(filter, false)) {
            continue;
        }
        let parts = |slices: &[StreamSlice]| -> Vec<(Labels, Arc<Rows>)> {
            slices.iter().map(|slice| (slice.labels.clone(), Arc::clone(&slice.rows))).collect()
        };
        let mut found = match segment.searchable_block(block).unwrap() {
            SearchableBlock::Columns(block) => {
                columnar += 1;
                search_block(&block.columns, &parts(&block.slices), plan, direction, limit)
            }
            SearchableBlock::Text(block) => {
                let slices: Vec<_> =
                    block.chunks().map(|chunk| (chunk.labels.clone(), Arc::clone(&chunk.rows))).collect();
                search_block(&block, &slices, plan, direction, limit)
            }
        };
        found.sort_by_key(|record| record.id);
        if direction == Direction::NewestFirst {
            found.reverse();
        }
        answer.extend(found);
    }
    answer.truncate(limit);
    (answer, columnar)
}

fn any_expr() -> impl Strategy<Value = String> {
    let term = prop::sample::select(
        &[
            "",
            "took",
            "\"GET /page/3\"",
            "\"USER=U4\"i",
            "\"status=300\"",
            "status=400",
            "status>=300",
            "level=warn",
            "user!=u2",
            "/took [1-3][0-9]* ms/",
            "/page.[0-5].x[0-9a-f]*1/",
            "/id=[0-9]+$/",
            "\"qz qz\"",
            "/^10:0[0-2]:.*9 ms$/",
            "app=db",
            "\"nowhere at all\"",
            "\"ms\\nlevel\"",
            "/(retry|took) [17]/",
            "\"-6\"",
            "/level=(info|warn) user=u[56]/",
            "/(retry|nowhere at all) [17]/",
        ][..],
    );
    let negated = (term, any::<bool>()).prop_map(|(term, not)| match (term, not) {
        ("", _) => String::new(),
        (term, true) => format!("NOT {term}"),
        (term, false) => term.to_owned(),
    });
    (prop::collection::vec(negated, 1..4), any::<bool>()).prop_map(|(terms, or)| {
        let terms: Vec<String> = terms.into_iter().filter(|term| !term.is_empty()).collect();
        terms.join(if or { " OR " } else { " " })
    })
}

/// A text that occurs in a record, given by the record, an offset, a length and whether case matters.
fn part_of_a_record(records: &[Record], needle: &(prop::sample::Index, prop::sample::Index, usize, bool)) -> Expr {
    let (record, start, len, case_insensitive) = needle;
    let line = &records[record.index(records.len())].line;
    let start = start.index(line.len() + 1);
    let bytes = line[start..(start + len).min(line.len())].to_vec();
    Expr::Literal(Literal { bytes, case_insensitive: *case_insensitive })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn records_and_their_order_agree_with_the_oracle_on_every_codec(
        seed: u64,
        count in 1_usize..3_000,
        block_rows in prop::sample::select(&[40_usize, 300, 1_000, 3_000][..]),
        exprs in prop::collection::vec(any_expr(), 6),
        needles in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1_usize..24, any::<bool>()), 24),
        limits in prop::collection::vec(prop_oneof![1_usize..6, Just(100), Just(usize::MAX)], 30),
    ) {
        let records = records(count, seed);
        for codec in [Codec::Columns(1), Codec::Lz4] {
            let segment = segment(&records, block_rows, codec);
            let exprs = exprs.iter().map(|expr| Expr::parse(expr.as_bytes()).unwrap());
            let exprs = exprs.chain(needles.iter().map(|needle| part_of_a_record(&records, needle)));
            for (parsed, limit) in exprs.zip(&limits) {
                let (plan, expr) = (Plan::compile(&parsed).unwrap(), parsed.to_string());
                let matching = || records.iter().enumerate().filter(|(row, record)| {
                    oracle::matches(&parsed, &Labels::parse(stream(*row)).unwrap(), &record.line)
                });
                let ascending: Vec<&Record> = matching().take(*limit).map(|(_, record)| record).collect();
                let newest: Vec<&Record> = matching().rev().take(*limit).map(|(_, record)| record).collect();
                for (direction, want) in [(Direction::Ascending, ascending), (Direction::NewestFirst, newest)] {
                    let (got, _) = search(&segment, &plan, direction, *limit);
                    let got: Vec<&Record> = got.iter().collect();
                    prop_assert!(got == want, "{expr} {direction:?}, limit {limit}, {codec:?}: {} records instead of {}; {:?}", got.len(), want.len(),
                        got.iter().zip(&want).find(|(got, want)| got != want));
                }
            }
        }
    }
}

/// The property test would prove nothing about columns if all its blocks were text.
#[test]
fn large_blocks_of_the_property_test_are_columnar() {
    let segment = segment(&records(3_000, 1), 1_000, Codec::Columns(1));
    assert_eq!(search(&segment, &compile(""), Direction::Ascending, 5).1, 3);
}
