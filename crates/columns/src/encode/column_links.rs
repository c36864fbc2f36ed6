//! Finds columns of a table that equal another column or are a function of it.
//!
//! Logs are redundant: an address and its name, a logger and its class. If each value of one dictionary always occurs with the
//! same value of another, only the mapping is stored. Comparing the columns of a table in pairs is cheap, because nearly all
//! pairs differ within the first rows. The comparisons are limited, so that many similar columns take no longer than others.

use crate::encode::encoded_column::EncodedColumn;
use crate::encode::hash::hash;

/// Rows that are compared per value of a table and per column, at most.
const COMPARISONS_PER_VALUE: usize = 4;
const COMPARISONS_PER_COLUMN: usize = 1 << 10;

/// Links the columns of a table.
pub(crate) fn link_columns(columns: &mut [EncodedColumn]) {
    map_dictionaries(columns);
    find_copies(columns);
}

/// The codes of a dictionary.
fn codes(column: &EncodedColumn) -> Option<(&[u32], usize)> {
    match column {
        EncodedColumn::Dictionary { codes, distinct, .. } => Some((codes, *distinct)),
        _ => None,
    }
}

fn map_dictionaries(columns: &mut [EncodedColumn]) {
    let distinct = |at: &usize| columns.get(*at).and_then(codes).map(|(_, distinct)| distinct);
    let mut order: Vec<usize> = (0..columns.len()).filter(|at| distinct(at).is_some()).collect();
    // A column with more values can determine one with fewer.
    order.sort_by_key(|at| std::cmp::Reverse(distinct(at)));
    let rows = columns.iter().find_map(codes).map_or(0, |(ids, _)| ids.len());
    let mut mapper = DependencyFinder {
        comparisons_left: order.len() * (rows * COMPARISONS_PER_VALUE + COMPARISONS_PER_COLUMN),
        ..DependencyFinder::default()
    };
    let mut determinants: Vec<usize> = Vec::new();
    for at in order {
        let Some((ids, own)) = codes(&columns[at]) else { continue };
        // The last determinant has the fewest values, so its mapping is the shortest.
        let found = determinants.iter().rev().find_map(|determinant_column| {
            let (from, distinct) = codes(&columns[*determinant_column])?;
            let pays = distinct * 4 <= ids.len() * 3 && (distinct <= own * 16 || distinct * 8 <= ids.len());
            if pays { mapper.find_mapping(from, ids, distinct).map(|map| (*determinant_column, map)) } else { None }
        });
        let Some((determinant, map)) = found else {
            determinants.push(at);
            continue;
        };
        if columns[at] == columns[determinant] {
            columns[at] = EncodedColumn::Copy { column: determinant };
        } else if let EncodedColumn::Dictionary { values, .. } = &mut columns[at] {
            let values = std::mem::replace(values, Box::new(EncodedColumn::Copy { column: determinant }));
            columns[at] = EncodedColumn::Mapped { determinant, map, values };
        }
    }
}

/// Finds mappings. Its memory is reused from pair to pair, because most pairs differ soon.
#[derive(Default)]
struct DependencyFinder {
    /// For each code of the determinant, the comparison that saw it last, and the code that it maps to.
    mappings: Vec<(u32, u32)>,
    generation: u32,
    comparisons_left: usize,
}

impl DependencyFinder {
    /// The code in `to` for each of the `distinct` codes in `from`, if `to` is a function of `from`.
    fn find_mapping(&mut self, from: &[u32], to: &[u32], distinct: usize) -> Option<Vec<u32>> {
        self.generation += 1;
        if self.mappings.len() < distinct {
            self.mappings.resize(distinct, (0, 0));
        }
        let rows = from.len().min(self.comparisons_left);
        let parts = from[..rows].iter().zip(to).position(|(from, to)| {
            let place = &mut self.mappings[*from as usize];
            if place.0 != self.generation {
                *place = (self.generation, *to);
            }
            place.1 != *to
        });
        self.comparisons_left -= parts.map_or(rows, |row| row + 1);
        if parts.is_some() || rows < from.len() {
            return None;
        }
        Some(self.mappings[..distinct].iter().map(|(_, to)| *to).collect())
    }
}

fn find_copies(columns: &mut [EncodedColumn]) {
    let fingerprints: Vec<Option<u64>> = columns.iter().map(column_fingerprint).collect();
    for at in 1..columns.len() {
        let Some(fingerprint) = fingerprints[at] else { continue };
        let (before, rest) = columns.split_at_mut(at);
        let Some(column) = rest.first_mut() else { continue };
        let is_copy = |(other, its): (&EncodedColumn, &Option<u64>)| *its == Some(fingerprint) && other == column;
        if let Some(original) = before.iter().zip(&fingerprints).position(is_copy) {
            *column = EncodedColumn::Copy { column: original };
        }
    }
}

/// A key by which most columns differ; `None` for columns that are already linked.
fn column_fingerprint(column: &EncodedColumn) -> Option<u64> {
    match column {
        EncodedColumn::Raw(bytes) => Some(hash(bytes)),
        EncodedColumn::Integers(numbers) => Some(hash(&numbers.planes) ^ numbers.base),
        EncodedColumn::Fixed { numbers, nibbles, .. } => Some(
            numbers
                .iter()
                .fold(hash(nibbles), |fingerprint, numbers| fingerprint.rotate_left(1) ^ hash(&numbers.planes)),
        ),
        EncodedColumn::Tables(split) => {
            let columns = split.tables.iter().flat_map(|table| &table.columns).filter_map(column_fingerprint);
            Some(columns.fold(hash(&split.outliers), |all, fingerprint| all.rotate_left(1) ^ fingerprint))
        }
        EncodedColumn::Dictionary { .. }
        | EncodedColumn::Mapped { .. }
        | EncodedColumn::Copy { .. }
        | EncodedColumn::Constant(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_functions_are_mapped() {
        let mut mapper = DependencyFinder { comparisons_left: 100, ..DependencyFinder::default() };
        assert_eq!(mapper.find_mapping(&[0, 1, 2, 1], &[0, 1, 0, 1], 3), Some(vec![0, 1, 0]));
        assert_eq!(mapper.find_mapping(&[0, 1, 2, 1], &[0, 1, 0, 0], 3), None);
        assert_eq!(mapper.find_mapping(&[1, 0], &[0, 1], 2), Some(vec![1, 0]), "an earlier comparison has no effect");
    }

    /// Pairs that differ in the last row cost the most. The comparison stops at the limit, and an incomplete one gives no mapping.
    #[test]
    fn comparisons_are_bounded() {
        let mut mapper = DependencyFinder { comparisons_left: 25, ..DependencyFinder::default() };
        let codes: Vec<u32> = (0..10).collect();
        let mut other = codes.clone();
        other.push(3);
        let from: Vec<u32> = codes.iter().copied().chain([2]).collect();
        for _ in 0..2 {
            assert_eq!(mapper.find_mapping(&from, &other, 10), None);
        }
        assert_eq!(mapper.comparisons_left, 3);
        assert_eq!(mapper.find_mapping(&codes, &codes, 10), None);
        assert_eq!(mapper.comparisons_left, 0);
    }

    #[test]
    fn equal_columns_are_copies() {
        let raw = |text: &str| EncodedColumn::Raw(text.as_bytes().to_vec());
        let mut columns = vec![raw("a\nb\n"), raw("a\nc\n"), raw("a\nb\n"), raw("a\nc\n")];
        link_columns(&mut columns);
        assert_eq!(columns[2..], [EncodedColumn::Copy { column: 0 }, EncodedColumn::Copy { column: 1 }]);
    }
}
