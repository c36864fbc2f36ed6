//! The attributes of rows as bytes, in frames and blocks.
//!
//! ```text
//!   varint lists, for each:  varint bytes · names (`AttributeNames::encode`)
//!   varint runs, for each:   varint rows since the run before · varint rows, at least 1 · varint number of the list
//!   varint rows with a value of several lines, for each:
//!       varint rows since the row before · for each of its values a varint: lines, at least 1
//! ```
//! Invariant: the values of a row have fewer lines than the row, whose line has at least one.

use bucksaw_binary::{ByteReader, put_varint};
use bucksaw_record::{AttributeNames, RowAttributes};

/// Appends the attributes of rows.
pub fn encode_attributes(attributes: &RowAttributes, out: &mut Vec<u8>) {
    put_varint(out, attributes.lists().len() as u64);
    let mut names = Vec::new();
    for list in attributes.lists() {
        names.clear();
        list.encode(&mut names);
        put_varint(out, names.len() as u64);
        out.extend_from_slice(&names);
    }
    put_varint(out, attributes.runs().count() as u64);
    let mut end = 0;
    for (row, count, list) in attributes.runs() {
        put_varint(out, u64::from(row - end));
        put_varint(out, u64::from(count));
        put_varint(out, u64::from(list));
        end = row + count;
    }
    let rows = || attributes.value_lines_in(0..u32::MAX);
    put_varint(out, rows().count() as u64);
    let mut before = 0;
    for (row, lines) in rows() {
        put_varint(out, u64::from(row - before));
        lines.iter().for_each(|lines| put_varint(out, u64::from(*lines)));
        before = row;
    }
}

/// The attributes of `count` rows with these numbers of lines; `None` if the bytes are damaged.
pub fn decode_attributes(reader: &mut ByteReader<'_>, count: u32, lines: Option<&[u32]>) -> Option<RowAttributes> {
    let mut lists = Vec::new();
    for _ in 0..reader.varint()? {
        let bytes = usize::try_from(reader.varint()?).ok()?;
        lists.push(AttributeNames::decode(reader.bytes(bytes)?).ok()?);
    }
    let mut attributes = RowAttributes::empty();
    let mut end = 0_u32;
    for _ in 0..reader.varint()? {
        let row = end.checked_add(reader.varint_u32()?)?;
        let rows = reader.varint_u32().filter(|rows| *rows > 0)?;
        end = row.checked_add(rows).filter(|end| *end <= count)?;
        attributes.push(row, rows, lists.get(usize::try_from(reader.varint()?).ok()?)?);
    }
    let mut before = 0_u32;
    for at in 0..reader.varint()? {
        let step = reader.varint_u32().filter(|step| at == 0 || *step > 0)?;
        let row = before.checked_add(step)?;
        let values = attributes.get(row)?.names.len();
        let lines: Option<Vec<u32>> = (0..values).map(|_| reader.varint_u32().filter(|lines| *lines > 0)).collect();
        attributes.push_value_lines(row, &lines?);
        before = row;
    }
    fits_lines(&attributes, lines?).then_some(attributes)
}

/// Whether each row has at least one line besides those of its values.
fn fits_lines(attributes: &RowAttributes, lines: &[u32]) -> bool {
    let is_room = |row: u32, values: u64| lines.get(row as usize).is_some_and(|lines| u64::from(*lines) > values);
    let of_runs = |(row, count, names): (u32, u32, &AttributeNames)| {
        (row..row + count).all(|row| is_room(row, names.len() as u64))
    };
    let of_rows = |(row, lines): (u32, &[u32])| is_room(row, lines.iter().map(|lines| u64::from(*lines)).sum());
    attributes.runs_in(0..u32::MAX).all(of_runs) && attributes.value_lines_in(0..u32::MAX).all(of_rows)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rows with their lines, and attributes that fit.
    pub(crate) fn any_attributes(count: u32) -> impl Strategy<Value = (Vec<u32>, RowAttributes)> {
        let row = (0_usize..4, 1_u32..3, prop::collection::vec(1_u32..3, 2));
        prop::collection::vec(row, count as usize).prop_map(|rows| {
            let lists = [&["a", "b"][..], &["trace_id"], &["b", "a"]];
            let lists = lists.map(|names| AttributeNames::new(names.iter().copied()).unwrap());
            let (mut lines, mut attributes) = (Vec::new(), RowAttributes::empty());
            for (row, (list, own, values)) in (0..).zip(rows) {
                let Some(names) = lists.get(list) else {
                    lines.push(own);
                    continue;
                };
                let values = &values[..names.len()];
                attributes.push(row, 1, names);
                attributes.push_value_lines(row, values);
                lines.push(own + values.iter().sum::<u32>());
            }
            (lines, attributes)
        })
    }

    proptest! {
        #[test]
        fn attributes_round_trip((lines, attributes) in (0_u32..40).prop_flat_map(any_attributes)) {
            let mut bytes = Vec::new();
            encode_attributes(&attributes, &mut bytes);
            let mut reader = ByteReader(&bytes);
            let decoded = decode_attributes(&mut reader, lines.len() as u32, Some(&lines));
            prop_assert!(reader.is_empty());
            prop_assert_eq!(decoded, Some(attributes.clone()));
            if !attributes.is_empty() {
                prop_assert_eq!(decode_attributes(&mut ByteReader(&bytes), lines.len() as u32, None), None);
                let few = vec![1; lines.len()];
                prop_assert_eq!(decode_attributes(&mut ByteReader(&bytes), lines.len() as u32, Some(&few)), None);
            }
        }

        #[test]
        fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..60), count in 0_u32..20) {
            let _ = decode_attributes(&mut ByteReader(&bytes), count, Some(&vec![3; count as usize]));
        }
    }
}
