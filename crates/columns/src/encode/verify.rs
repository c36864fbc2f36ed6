//! Compares an encoded block with its text, before the block is returned.
//!
//! Batches of lines are compared column by column, without building lines, so that the data stays in near caches.
#![deny(clippy::indexing_slicing)]

use crate::decimal;
use crate::decode::column_block::ColumnBlock;
use crate::decode::fixed_width_format::FORMATTED_BYTES_MAX;
use crate::decode::partition::TablePartition;
use crate::decode::table_rows::RowsInTables;
use crate::decode::value_source::ValueSource;
use crate::encode::hash::bytes_equal;

/// Lines of a batch. Their text stays in the first cache, and most tables have enough lines to make loading their
/// columns worthwhile.
const BATCH_ROWS_MIN: usize = 256;
const BATCH_ROWS_PER_TABLE: usize = 16;

/// Whether the lines of the block are exactly those of the text, which start at `starts` and end with an LF.
pub(crate) fn has_text(block: &ColumnBlock, text: &[u8], starts: &[u32]) -> bool {
    let Some(source) = ValueSource::of(block, block.root()).filter(|_| starts.len() == block.rows()) else {
        return false;
    };
    let mut next = 0;
    let rows = if let ValueSource::Split(split) = &source { split.table_count() * BATCH_ROWS_PER_TABLE } else { 0 };
    let rows = rows.max(BATCH_ROWS_MIN);
    for (at, starts) in starts.chunks(rows).enumerate() {
        let mut places = starts.to_vec();
        if compare_column(text, &source, at * rows, &mut places).is_none() {
            return false;
        }
        for (start, end) in starts.iter().zip(&places) {
            if *start != next || text.get(*end as usize) != Some(&b'\n') {
                return false;
            }
            next = end + 1;
        }
    }
    next as usize == text.len()
}

/// Advances the offset of each row, from row `first` on, behind its value; `None` if the text differs.
fn compare_column(text: &[u8], source: &ValueSource<'_>, first: usize, places: &mut [u32]) -> Option<()> {
    match source {
        ValueSource::Literal(bytes, len) => {
            let literal = bytes.get(..*len)?;
            places.iter_mut().try_for_each(|place| compare_value(text, literal, place))
        }
        ValueSource::Text(texts) => {
            places.iter_mut().enumerate().try_for_each(|(at, place)| compare_value(text, texts.get(first + at)?, place))
        }
        ValueSource::Dictionary { codes, texts } => places
            .iter_mut()
            .enumerate()
            .try_for_each(|(at, place)| compare_value(text, texts.get(codes.get(first + at)?)?, place)),
        ValueSource::Numbers(numbers) => {
            // A row without a number would end the comparison early.
            (first + places.len() <= numbers.len()).then_some(())?;
            let mut pairs = places.iter_mut().zip(numbers.iter_from(first));
            pairs.try_for_each(|(place, number)| compare_number(text, number, place))
        }
        ValueSource::Fixed(template) => places.iter_mut().enumerate().try_for_each(|(at, place)| {
            let mut room = [0; FORMATTED_BYTES_MAX];
            let len = template.write(first + at, &mut room)?;
            compare_value(text, room.get(..len)?, place)
        }),
        ValueSource::Table(sources) => {
            sources.iter().try_for_each(|source| compare_column(text, source, first, places))
        }
        ValueSource::Split(split) => {
            let rows: Vec<u32> = (first as u32..).take(places.len()).collect();
            let mut partition = TablePartition::default();
            partition.partition(
                &rows,
                split.table_ids,
                RowsInTables::Listed(split.table_rows),
                &mut vec![0; split.table_count() + 1],
            )?;
            let mut some = Vec::new();
            for (table, order, rows) in partition.table_slices() {
                // Consecutive lines of a table are consecutive rows of it.
                let row = *rows.first()? as usize;
                let sources = split.columns(table as usize)?;
                if let [ValueSource::Literal(bytes, len)] = sources {
                    // Constant values of an attribute, as a rule: there are as many as lines.
                    let literal = bytes.get(..*len)?;
                    for at in order {
                        compare_value(text, literal, places.get_mut(*at as usize)?)?;
                    }
                    continue;
                }
                some.clear();
                some.extend(order.iter().filter_map(|at| places.get(*at as usize)));
                sources.iter().try_for_each(|source| compare_column(text, source, row, &mut some))?;
                for (at, place) in order.iter().zip(&some) {
                    *places.get_mut(*at as usize)? = *place;
                }
            }
            Some(())
        }
    }
}

/// Compares a number by parsing the text: reading digits that were just written would stall.
#[inline]
fn compare_number(text: &[u8], number: u64, place: &mut u32) -> Option<()> {
    let start = *place as usize;
    let len = decimal::decimal_length(number as i64);
    let digits = text.get(start..start + len)?;
    *place += len as u32;
    (decimal::parse_integer(digits) == Some(number)).then_some(())
}

// Not inlined everywhere by itself, as it has several callers; then encoding takes 5 % longer.
#[inline(always)]
fn compare_value(text: &[u8], value: &[u8], place: &mut u32) -> Option<()> {
    let start = *place as usize;
    let is = bytes_equal(text.get(start..start + value.len())?, value);
    *place += value.len() as u32;
    is.then_some(())
}
