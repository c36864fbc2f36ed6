//! `docs/format.md` against the code.

use bucksaw_record::Id;
use bucksaw_segment::{FrameHeader, RecordSummary, queue, stored};

fn document() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md")).unwrap()
}

/// The rows `| offset | size | field |` of the table under a heading, as far as their offsets are numbers.
fn table(heading: &str) -> Vec<(u64, u64, String)> {
    let text = document();
    let section = text.split(heading).nth(1).unwrap();
    let rows = section
        .lines()
        .skip_while(|line| !line.starts_with("| offset"))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        Some((cells[1].parse().ok()?, cells[2].parse().unwrap_or(0), cells[3].to_owned()))
    })
    .collect()
}

/// Each field starts where the one before ends; the last, of open size, starts at the end of the header.
fn adds_up(heading: &str, header_len: usize) {
    let rows = table(heading);
    assert!(rows.len() > 3, "{heading}");
    let mut at = 0;
    for (offset, size, field) in &rows {
        assert_eq!(*offset, at, "{heading}: {field}");
        at += size;
    }
    assert_eq!(at, header_len as u64, "{heading}");
}

#[test]
fn tables_add_up_to_the_headers() {
    adds_up("## Queue segment", queue::HEADER_LEN);
    adds_up("### Frame", FrameHeader::LEN);
    // The fields after the labels have no fixed offset: length and magic.
    let seal = queue::Seal::new(0, &RecordSummary::default(), &[]);
    adds_up("### Seal", seal.encode(Id::MIN, None).unwrap().len() - 12);
    adds_up("## Stored segment", stored::HEADER_LEN);
    adds_up("### Recovery record", 60);
    adds_up("### Backup", 52);
}

#[test]
fn numbers_are_those_of_the_code() {
    let text = document();
    for number in [
        format!("at most {}", FrameHeader::BODY_BYTES_MAX),
        format!("at most {} bytes", stored::COLUMN_BYTES_MAX),
        format!("| end − {} | 8 | footer_at |", stored::TRAILER_LEN),
        format!("at most {} |", queue::Seal::LEN_MAX),
        format!("## Queue segment, version {}", queue::VERSION),
        format!("## Stored segment, version {}", stored::VERSION),
        format!("| queue segment | 1, {} |", queue::VERSION),
        format!("| stored segment | 1, 2, {} |", stored::VERSION),
    ] {
        assert!(text.contains(&number), "docs/format.md does not say `{number}`");
    }
}
