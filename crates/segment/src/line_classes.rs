//! The classes of the lines of a block, by which its encoder compares values of an attribute with each other.

use std::collections::HashMap;

use bucksaw_columns::LineClass;

use crate::Rows;

/// The class of each line of some chunks: 0 for those of a record's line, and a number for each name of an attribute. Further
/// names share the last class. Empty if no record has attributes.
pub(crate) fn line_classes<'a>(chunks: impl Iterator<Item = &'a Rows> + Clone) -> Vec<LineClass> {
    if chunks.clone().all(|rows| rows.attributes.is_empty()) {
        return Vec::new();
    }
    let mut classes = Vec::new();
    let mut known: HashMap<&str, LineClass> = HashMap::new();
    for rows in chunks {
        let Some(lines) = &rows.lines else {
            classes.resize(classes.len() + rows.count as usize, 0);
            continue;
        };
        let mut value_lines = rows.attributes.value_lines_in(0..rows.count).peekable();
        let mut classes_of_names: Vec<LineClass> = Vec::new();
        let (mut row, mut last_list) = (0, None);
        let runs = rows.attributes.runs().zip(rows.attributes.runs_in(0..rows.count));
        for ((_, _, list), (first, count, names)) in runs {
            push_lines(&mut classes, lines.get(row..first as usize).unwrap_or_default());
            row = (first + count) as usize;
            if last_list != Some(list) {
                last_list = Some(list);
                classes_of_names.clear();
                classes_of_names.extend(names.iter().map(|name| {
                    let next = LineClass::try_from(known.len() + 1).unwrap_or(LineClass::MAX);
                    *known.entry(name).or_insert(next)
                }));
            }
            for (row, lines) in (first..).zip(lines.get(first as usize..row).unwrap_or_default()) {
                let of_values = value_lines.next_if(|(stated, _)| *stated == row).map(|(_, lines)| lines);
                let value_count: u32 = match of_values {
                    Some(lines) => lines.iter().sum(),
                    None => classes_of_names.len() as u32,
                };
                push_lines(&mut classes, &[lines.saturating_sub(value_count)]);
                match of_values {
                    None => classes.extend_from_slice(&classes_of_names),
                    Some(lines) => {
                        for (class, lines) in classes_of_names.iter().zip(lines) {
                            classes.resize(classes.len() + *lines as usize, *class);
                        }
                    }
                }
            }
        }
        push_lines(&mut classes, lines.get(row..).unwrap_or_default());
    }
    classes
}

/// Adds the lines of records without attributes.
fn push_lines(classes: &mut Vec<LineClass>, lines: &[u32]) {
    let count: u64 = lines.iter().map(|lines| u64::from(*lines)).sum();
    classes.resize(classes.len() + count as usize, 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bucksaw_record::{AttributeNames, RowAttributes};

    fn rows(lines: Option<&[u32]>, count: u32, attributes: RowAttributes) -> Rows {
        Rows { lines: lines.map(<[u32]>::to_vec), count, attributes, ..Rows::default() }
    }

    #[test]
    fn values_of_one_name_have_one_class() {
        let names = |list: &[&str]| AttributeNames::new(list.iter().copied()).unwrap();
        let mut first = RowAttributes::empty();
        first.push(1, 2, &names(&["a", "b"]));
        first.push_value_lines(2, &[1, 2]);
        let mut second = RowAttributes::empty();
        second.push(0, 1, &names(&["b", "c", "a"]));
        let plain = rows(None, 2, RowAttributes::empty());
        let chunks = [rows(Some(&[2, 3, 5, 1]), 4, first), plain.clone(), rows(Some(&[4]), 1, second)];
        let want = [&[0, 0][..], &[0, 1, 2], &[0, 0, 1, 2, 2], &[0], &[0, 0], &[0, 2, 3, 1]].concat();
        assert_eq!(line_classes(chunks.iter()), want);
        assert_eq!(line_classes([plain, rows(Some(&[3]), 1, RowAttributes::empty())].iter()), Vec::<LineClass>::new());
    }
}
