//! Whether the lines of a block are those of a text.
//!
//! Asked before a block is given away. Some lines at a time, and of these column by column, what should stand in the text is
//! compared with what does: no line is built, and what is looked at stays in the nearest caches.
#![deny(clippy::indexing_slicing)]

use crate::decimal;
use crate::fixed;
use crate::hash::same;
use crate::open::Block;
use crate::parting::Parting;
use crate::rebuild::Source;
use crate::spell::ROOM;

/// Lines that are compared at a time: so few that their text stays in the nearest cache, but for each table enough, on
/// average, that it pays to fetch its columns.
const ROWS_AT_ONCE: usize = 256;
const ROWS_OF_TABLE: usize = 16;

/// Whether the block has just these lines: each starts at one of `starts` and has an LF behind it.
pub(crate) fn is_of(block: &Block, text: &[u8], starts: &[u32]) -> bool {
    let Some(source) = Source::of(block, block.root()).filter(|_| starts.len() == block.rows()) else { return false };
    let walk = Walk { text };
    let mut next = 0;
    let rows = if let Source::Split(split) = &source { split.table_count() * ROWS_OF_TABLE } else { 0 };
    let rows = rows.max(ROWS_AT_ONCE);
    for (at, starts) in starts.chunks(rows).enumerate() {
        let mut places = starts.to_vec();
        if walk.over(&source, at * rows, &mut places).is_none() {
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
struct Walk<'w> {
    text: &'w [u8],
}

impl Walk<'_> {
    /// Moves the place of each row, of which the first is `first`, over its value; `None` when something else stands
    /// there.
    fn over(&self, source: &Source<'_>, first: usize, places: &mut [u32]) -> Option<()> {
        match source {
            Source::Literal(text, len) => {
                let literal = text.get(..*len)?;
                places.iter_mut().try_for_each(|place| self.step(literal, place))
            }
            Source::Text(texts) => {
                places.iter_mut().enumerate().try_for_each(|(at, place)| self.step(texts.get(first + at)?, place))
            }
            Source::Dictionary { ids, texts } => places
                .iter_mut()
                .enumerate()
                .try_for_each(|(at, place)| self.step(texts.get(ids.get(first + at)?)?, place)),
            Source::Numbers(numbers) => {
                places.iter_mut().zip(numbers.get(first..)?).try_for_each(|(place, number)| self.number(*number, place))
            }
            Source::Fixed(spelling) => places.iter_mut().enumerate().try_for_each(|(at, place)| {
                let mut room = [0; ROOM];
                let len = spelling.write(first + at, &mut room)?;
                self.step(room.get(..len)?, place)
            }),
            Source::Table(sources) => sources.iter().try_for_each(|source| self.over(source, first, places)),
            Source::Split(split) => {
                let rows: Vec<u32> = (first as u32..).take(places.len()).collect();
                let mut parting = Parting::default();
                parting.part(&rows, split.numbers, split.rows, &mut vec![0; split.table_count() + 1])?;
                let mut some = Vec::new();
                for (table, order, rows) in parting.parts() {
                    some.clear();
                    some.extend(order.iter().filter_map(|at| places.get(*at as usize)));
                    // Those of a table follow each other in it.
                    let row = *rows.first()? as usize;
                    let sources = split.columns(table as usize)?;
                    sources.iter().try_for_each(|source| self.over(source, row, &mut some))?;
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
    fn number(&self, number: u64, place: &mut u32) -> Option<()> {
        let start = *place as usize;
        let len = decimal::length(number as i64);
        let digits = self.text.get(start..start + len)?;
        *place += len as u32;
        (fixed::integer(digits) == Some(number)).then_some(())
    }

    #[inline]
    fn step(&self, value: &[u8], place: &mut u32) -> Option<()> {
        let start = *place as usize;
        let is = same(self.text.get(start..start + value.len())?, value);
        *place += value.len() as u32;
        is.then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Encoder;

    /// The text that is checked must be told from any that differs in one byte, or in where its lines are.
    #[test]
    fn a_text_is_told_from_others() {
        let mut text = Vec::new();
        for row in 0..200_u32 {
            let line = match row % 3 {
                0 => format!("{row:04} took {} ms [{}]\n", row * row, row % 7),
                1 => format!("id={:06x} user=u{} \"a b\"\n", row.wrapping_mul(0x9e37_79b1) >> 8, row % 5),
                _ => format!("rare {}\n", "x,y ".repeat(row as usize % 50)),
            };
            text.extend_from_slice(line.as_bytes());
        }
        let starts = |text: &[u8]| -> Vec<u32> {
            [0].into_iter()
                .chain(memchr::memchr_iter(b'\n', &text[..text.len() - 1]).map(|end| end as u32 + 1))
                .collect()
        };
        let packed = Encoder::eager().forced(&text, 1);
        let open = || Block::open(packed.clone(), 200, text.len()).unwrap();
        assert!(is_of(&open(), &text, &starts(&text)));
        let block = open();
        for at in 0..text.len() {
            let mut other = text.clone();
            other[at] ^= 1;
            assert!(!is_of(&block, &other, &starts(&other)), "byte {at}");
            assert!(!is_of(&block, &other, &starts(&text)), "byte {at}");
        }
        let longer = [text.as_slice(), b"\n"].concat();
        assert!(!is_of(&block, &longer, &starts(&longer)));
    }
}
