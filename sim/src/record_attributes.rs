//! The attributes of simulated records. The line determines them, so a record that has others was changed on its way.

use std::sync::Arc;

use bucksaw_record::{AttributeNames, InvalidAttributes, RecordView, RowAttributes};

/// The names, in their order.
const NAMES: [&str; 2] = ["trace", "level"];

/// The values of `level`, by the number of the record.
const LEVELS: [&str; 3] = ["info", "warn", "error"];

/// Records in a row that all have attributes, or all have none.
const RUN: u32 = 16;

/// The values of the attributes of a line, in the order of [`NAMES`]; `None` without attributes.
pub(crate) fn values_of(line: &str) -> Option<[String; 2]> {
    let number: u32 = record_number(line)?.parse().ok()?;
    let level = LEVELS.get(number as usize % LEVELS.len())?;
    (number / RUN % 2 == 1).then(|| [format!("t{number}"), (*level).to_owned()])
}

/// The number after the only `record ` of a line of a client; a space follows it.
pub(crate) fn record_number(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("record ")?;
    rest.split_once(' ').map(|(number, _)| number)
}

/// The text of a batch with the values of attributes behind each line, the number of lines of each record, and the attributes.
///
/// # Errors
/// [`InvalidAttributes`] for names that are none.
pub(crate) fn add_attributes(lines: &[String]) -> Result<(String, Vec<u32>, RowAttributes), InvalidAttributes> {
    let names = AttributeNames::new(NAMES)?;
    let (mut text, mut counts, mut attributes) = (String::new(), Vec::new(), RowAttributes::default());
    for (row, line) in (0..).zip(lines) {
        let values = values_of(line);
        text.extend([line, "\n"]);
        for value in values.iter().flatten() {
            text.extend([value, "\n"]);
        }
        counts.push(if values.is_some() { 1 + NAMES.len() as u32 } else { 1 });
        if values.is_some() {
            attributes.push(row, 1, &names);
        }
    }
    Ok((text, counts, attributes))
}

/// The line of a record that was found. Another text if its attributes are not those of its line.
pub(crate) fn checked_line(record: RecordView<'_>) -> Arc<str> {
    let line = String::from_utf8_lossy(record.line());
    let found = record.attributes();
    let expected = values_of(&line);
    let is_same = match &expected {
        None => found.is_empty(),
        Some(values) => found.iter().copied().eq(NAMES.into_iter().zip(values.iter().map(String::as_bytes))),
    };
    if is_same { line.into() } else { format!("{line} with the attributes {found:?}").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_determines_the_attributes() {
        let values = |line: &str| values_of(line).map(|[trace, level]| format!("{trace} {level}"));
        assert_eq!(values("client 0 record 15 xx"), None);
        assert_eq!(values("client 0 record 16 xx").as_deref(), Some("t16 warn"));
        assert_eq!(values("client 0 record 31 "), Some("t31 warn".to_owned()));
        assert_eq!(values("client 0 record 32 "), None);
        assert_eq!(values("text 1"), None);
    }

    #[test]
    fn other_attributes_change_the_checked_line() {
        let names = AttributeNames::new(NAMES).unwrap();
        let shape = bucksaw_record::AttributeShape { names: &names, value_lines: &[] };
        let checked = |text: &str| checked_line(RecordView::new(text.as_bytes(), Some(shape))).to_string();
        assert_eq!(checked("record 16 \nt16\nwarn"), "record 16 ");
        assert_ne!(checked("record 16 \nt17\nwarn"), "record 16 ");
        assert_ne!(checked("record 1 \nt16\nwarn"), "record 1 ");
        assert_eq!(&*checked_line(RecordView::line_only(b"record 1 ")), "record 1 ");
        assert_ne!(&*checked_line(RecordView::line_only(b"record 16 ")), "record 16 ");
    }
}
