//! Real logs of the directory in `BUCKSAW_CORPUS`, or generated lines: fields and levels are found as they are shown.

use bucksaw_generate::{Config, Generator, SampleFormat};
use bucksaw_record::expr::{Field, Test};

use super::*;

/// Bytes of a file that are read.
const FILE_BYTES_MAX: usize = 4 << 20;

/// Lines of a text whose fields are tested, evenly spread.
const TESTED_LINES: usize = 2_000;

/// Texts by name.
#[expect(clippy::disallowed_methods, reason = "reads the directory that BUCKSAW_CORPUS names")]
fn corpus() -> Vec<(String, Vec<u8>)> {
    let Some(dir) = std::env::var_os("BUCKSAW_CORPUS").filter(|dir| !dir.is_empty()) else {
        return [(SampleFormat::Text, "text"), (SampleFormat::Json, "json")].map(generated).to_vec();
    };
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let read = |path: std::path::PathBuf| {
        let mut text = std::fs::read(&path).unwrap();
        text.truncate(FILE_BYTES_MAX);
        (path.display().to_string(), text)
    };
    paths.map(read).collect()
}

fn generated((format, name): (SampleFormat, &str)) -> (String, Vec<u8>) {
    let mut generator = Generator::new(Config { format, size: None, seed: 3 }, 1_700_000_000_000);
    let mut text = Vec::new();
    (0..5_000).for_each(|step| generator.append_line(&mut text, 1_700_000_000_000 + 50 * step));
    (name.to_owned(), text)
}

#[test]
fn every_field_of_a_record_matches_it() {
    let mut tested = 0;
    for (name, text) in corpus() {
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        for record in lines.iter().step_by(lines.len().div_ceil(TESTED_LINES)) {
            fields::visit(record, 200, &mut |field, value| {
                for test in [Test::Equal(value.to_vec()), Test::Exists] {
                    let term = Expr::Field(Field { name: field.to_owned(), test }).to_string();
                    let (_, plan) = Plan::parse(term.as_bytes()).unwrap();
                    assert!(
                        plan.matches(&Labels::default(), RecordView::line_only(record)),
                        "{term} in {name}: {}",
                        record.escape_ascii()
                    );
                    tested += 1;
                }
            });
        }
    }
    assert!(tested > 1_000, "{tested}");
}

#[test]
fn a_count_of_a_level_is_that_of_the_rule() {
    let labels = Labels::default();
    for (name, text) in corpus() {
        let lines: Vec<&[u8]> = text.strip_suffix(b"\n").unwrap_or(&text).split(|byte| *byte == b'\n').collect();
        let (rows, text) = pack(&lines, false);
        let chunk = Chunk { labels: &labels, rows, text: &text };
        let block = match Encoder::new().encode(&text, &[], 1).text {
            TextEncoding::Columns(columns) => Some(ColumnBlock::open(columns, lines.len(), text.len()).unwrap()),
            _ => None,
        };
        let levels: Vec<Option<Level>> = lines.iter().map(|line| Level::of_text(line)).collect();
        let named = |level: Option<Level>| level.map_or("none", Level::name);
        for level in Level::ALL.into_iter().map(Some).chain([None]) {
            let check = |expr: &str, passes: &dyn Fn(Option<Level>) -> bool| {
                let want = levels.iter().filter(|found| passes(**found)).count();
                let mut bound = compile(expr).bind(&labels);
                assert_eq!(bound.count(&chunk, &|| false) as usize, want, "{expr} in {name}");
                if let Some(block) = &block {
                    let map = RecordMap::identity(lines.len());
                    let rows =
                        bound.match_rows(RecordBlock::new(block, &map).unwrap(), RowSet::All, &|| false).unwrap();
                    let found = (0..lines.len()).filter(|row| rows.contains(*row)).count();
                    assert_eq!(found, want, "{expr} in columns of {name}");
                }
            };
            check(&format!("@level={}", named(level)), &|found| found == level);
            check(&format!("@level!={}", named(level)), &|found| found != level);
            if let Some(limit) = level {
                check(&format!("@level>={}", limit.name()), &|found| found >= Some(limit));
            }
        }
    }
}
