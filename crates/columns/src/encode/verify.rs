//! Whether the lines of a block are those of a text.
//!
//! Asked before a block is given away. Some lines at a time, and of these column by column, what should stand in the text is
//! compared with what does: no line is built, and what is looked at stays in the nearest caches.
#![deny(clippy::indexing_slicing)]

use crate::decimal;
use crate::decode::column_block::ColumnBlock;
use crate::decode::fixed_width_format::FORMATTED_BYTES_MAX;
use crate::decode::partition::TablePartition;
use crate::decode::value_source::ValueSource;
use crate::encode::hash::bytes_equal;

/// Lines that are compared at a time: so few that their text stays in the nearest cache, but for each table enough, on
/// average, that it pays to fetch its columns.
const BATCH_ROWS_MIN: usize = 256;
const BATCH_ROWS_PER_TABLE: usize = 16;

/// Whether the block has just these lines: each starts at one of `starts` and has an LF behind it.
pub(crate) fn has_text(block: &ColumnBlock, text: &[u8], starts: &[u32]) -> bool {
    let Some(source) = ValueSource::of(block, block.root()).filter(|_| starts.len() == block.rows()) else {
        return false;
    };
    let walk = TextComparison { text };
    let mut next = 0;
    let rows = if let ValueSource::Split(split) = &source { split.table_count() * BATCH_ROWS_PER_TABLE } else { 0 };
    let rows = rows.max(BATCH_ROWS_MIN);
    for (at, starts) in starts.chunks(rows).enumerate() {
        let mut places = starts.to_vec();
        if walk.compare_column(&source, at * rows, &mut places).is_none() {
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

/// Goes over a text.
struct TextComparison<'w> {
    text: &'w [u8],
}

impl TextComparison<'_> {
    /// Moves the place of each row, of which the first is `first`, over its value; `None` when something else stands
    /// there.
    fn compare_column(&self, source: &ValueSource<'_>, first: usize, places: &mut [u32]) -> Option<()> {
        match source {
            ValueSource::Literal(text, len) => {
                let literal = text.get(..*len)?;
                places.iter_mut().try_for_each(|place| self.compare_value(literal, place))
            }
            ValueSource::Text(texts) => places
                .iter_mut()
                .enumerate()
                .try_for_each(|(at, place)| self.compare_value(texts.get(first + at)?, place)),
            ValueSource::Dictionary { codes, texts } => places
                .iter_mut()
                .enumerate()
                .try_for_each(|(at, place)| self.compare_value(texts.get(codes.get(first + at)?)?, place)),
            ValueSource::Numbers(numbers) => places
                .iter_mut()
                .zip(numbers.get(first..)?)
                .try_for_each(|(place, number)| self.compare_number(*number, place)),
            ValueSource::Fixed(spelling) => places.iter_mut().enumerate().try_for_each(|(at, place)| {
                let mut room = [0; FORMATTED_BYTES_MAX];
                let len = spelling.write(first + at, &mut room)?;
                self.compare_value(room.get(..len)?, place)
            }),
            ValueSource::Table(sources) => {
                sources.iter().try_for_each(|source| self.compare_column(source, first, places))
            }
            ValueSource::Split(split) => {
                let rows: Vec<u32> = (first as u32..).take(places.len()).collect();
                let mut parting = TablePartition::default();
                parting.partition(&rows, split.table_ids, split.table_rows, &mut vec![0; split.table_count() + 1])?;
                let mut some = Vec::new();
                for (table, order, rows) in parting.table_slices() {
                    some.clear();
                    some.extend(order.iter().filter_map(|at| places.get(*at as usize)));
                    // Those of a table follow each other in it.
                    let row = *rows.first()? as usize;
                    let sources = split.columns(table as usize)?;
                    sources.iter().try_for_each(|source| self.compare_column(source, row, &mut some))?;
                    for (at, place) in order.iter().zip(&some) {
                        *places.get_mut(*at as usize)? = *place;
                    }
                }
                Some(())
            }
        }
    }

    /// Whether what stands there is the number, and nothing else of its length: it is read, because to read digits that
    /// were just written would have to wait for them.
    #[inline]
    fn compare_number(&self, number: u64, place: &mut u32) -> Option<()> {
        let start = *place as usize;
        let len = decimal::decimal_length(number as i64);
        let digits = self.text.get(start..start + len)?;
        *place += len as u32;
        (decimal::parse_integer(digits) == Some(number)).then_some(())
    }

    #[inline]
    fn compare_value(&self, value: &[u8], place: &mut u32) -> Option<()> {
        let start = *place as usize;
        let is = bytes_equal(self.text.get(start..start + value.len())?, value);
        *place += value.len() as u32;
        is.then_some(())
    }
}
