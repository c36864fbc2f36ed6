//! Divides a range of ids into slices, which scan jobs read in parallel and in the order of the answer.
//!
//! The bounds come from the primary index, which ClickHouse has in memory: it has the id of each granule's first row. No row is
//! read, so a search for the newest records of a large table starts at once.

use bucksaw_record::Id;

use crate::client::DatabaseClient;
use crate::config::Config;
use crate::error::ClickHouseError;
use crate::parameters::Parameters;
use crate::row_decoder::RowFields;
use crate::statement::Statement;

/// Slices of a query at most. Each is a statement.
const SLICES_MAX: u64 = 64;

/// Rows of a slice at least: fewer take less time than a statement.
const SLICE_ROWS_MIN: u64 = 500_000;

/// A slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// The lowest id, inclusive.
    pub(crate) from: Id,
    /// The highest, exclusive.
    pub(crate) to: Id,
    /// Rows, estimated.
    pub(crate) rows: u64,
}

/// Slices that cover `from..to`, in order.
pub(crate) fn plan(client: &DatabaseClient, config: &Config, from: Id, to: Id) -> Result<Vec<Slice>, ClickHouseError> {
    let mut parameters = Parameters::default();
    let url = &config.url;
    let no_room = ClickHouseError::Malformed("no room for parameters");
    let places = parameters.number(from.bits()).zip(parameters.number(to.bits()));
    let (low, high) = places.ok_or(no_room)?;
    // The names were checked when the URL was parsed. Window functions number the rows of the granules by id.
    let sql = format!(
        "SELECT min(id), sum(rows) FROM (SELECT id, rows_in_granule AS rows, \
         greatest({SLICE_ROWS_MIN}, intDiv(sum(rows_in_granule) OVER (), {SLICES_MAX}) + 1) AS size, \
         intDiv(sum(rows_in_granule) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - rows_in_granule, size) AS slice \
         FROM mergeTreeIndex('{}', '{}') WHERE id >= {low} AND id < {high} AND rows_in_granule > 0) \
         GROUP BY slice ORDER BY slice LIMIT {} FORMAT RowBinary",
        url.database,
        url.table,
        2 * SLICES_MAX
    );
    let answer = client.ask(Statement::question(sql, parameters))?;
    let (mut fields, mut starts) = (RowFields(&answer), Vec::new());
    while let Some((id, rows)) = fields.u128().zip(fields.u64()) {
        starts.push((Id::from_bits(id), rows));
    }
    Ok(cover(from, to, &starts))
}

/// Slices that begin at these ids, except that the first begins at `from`: a granule that begins before may reach beyond it.
fn cover(from: Id, to: Id, starts: &[(Id, u64)]) -> Vec<Slice> {
    let mut slices = vec![Slice { from, to, rows: 1 }];
    for (number, (start, rows)) in starts.iter().enumerate() {
        match slices.last_mut() {
            Some(last) if number > 0 && *start > last.from && *start < to => {
                last.to = *start;
                slices.push(Slice { from: *start, to, rows: *rows });
            }
            Some(last) => last.rows += rows,
            None => {}
        }
    }
    slices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_cover_the_range_without_overlap() {
        let id = |bits: u128| Id::from_bits(bits);
        let slice = |from, to, rows| Slice { from: id(from), to: id(to), rows };
        assert_eq!(cover(id(5), id(90), &[]), [slice(5, 90, 1)]);
        let starts = [(id(9), 10), (id(20), 10), (id(20), 10), (id(40), 10), (id(90), 10)];
        assert_eq!(cover(id(5), id(90), &starts), [slice(5, 20, 11), slice(20, 40, 20), slice(40, 90, 20)]);
    }
}
