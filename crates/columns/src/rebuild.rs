//! Lines from columns.
#![deny(clippy::indexing_slicing)]

use crate::decimal::{NUMBER_BYTES_MAX, decimal};
use crate::decode::{Decoded, text};
use crate::fixed::Place;
use crate::open::{Block, Kind, Part, Table};

/// Bytes behind a text, so that a copy of fixed size may begin anywhere in it.
pub(crate) const SLACK: usize = 32;

/// Room for lines before it is known how many there are, in bytes.
const FIRST_ROOM: usize = 64 << 10;

/// Text that grows up to a bound.
pub(crate) struct Out {
    bytes: Vec<u8>,
    len: usize,
    max: usize,
}

impl Out {
    pub(crate) fn new(max: usize) -> Self {
        Self { bytes: vec![0; max.saturating_add(SLACK)], len: 0, max }
    }

    /// `source` has [`SLACK`] bytes behind `len`.
    #[inline]
    fn push_slack(&mut self, source: &[u8], start: usize, len: usize) -> Option<()> {
        if len <= SLACK {
            let from: &[u8; SLACK] = source.get(start..)?.first_chunk()?;
            let to: &mut [u8; SLACK] = self.bytes.get_mut(self.len..)?.first_chunk_mut()?;
            *to = *from;
        } else {
            let from = source.get(start..start + len)?;
            self.bytes.get_mut(self.len..self.len + len)?.copy_from_slice(from);
        }
        self.len += len;
        (self.len <= self.max).then_some(())
    }

    #[inline]
    pub(crate) fn push(&mut self, source: &[u8]) -> Option<()> {
        self.bytes.get_mut(self.len..self.len + source.len())?.copy_from_slice(source);
        self.len += source.len();
        (self.len <= self.max).then_some(())
    }

    #[inline]
    fn push_byte(&mut self, byte: u8) -> Option<()> {
        *self.bytes.get_mut(self.len)? = byte;
        self.len += 1;
        (self.len <= self.max).then_some(())
    }

    #[inline]
    fn push_number(&mut self, number: u64) -> Option<()> {
        let (digits, start) = decimal(number as i64);
        self.push_slack(&digits, start, NUMBER_BYTES_MAX - start)
    }

    pub(crate) fn shrink_to(&mut self, len: usize) {
        self.len = len;
    }

    /// Doubles the room, up to `most` bytes.
    fn grow(&mut self, most: usize) -> Option<()> {
        self.max = (self.max.max(512) * 2).min(most);
        let room = self.max + SLACK;
        (self.bytes.len() < room).then(|| self.bytes.resize(room, 0))
    }

    /// Pushes what may need more room, up to `most` bytes; `None` when that is not enough.
    pub(crate) fn push_growing(&mut self, most: usize, mut push: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        let start = self.len;
        while push(self).is_none() {
            self.len = start;
            self.grow(most)?;
        }
        Some(())
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn text(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn into_text(mut self) -> Vec<u8> {
        self.bytes.truncate(self.len);
        self.bytes
    }
}

/// What gives the values of a column.
pub(crate) enum Source<'b> {
    Literal(&'b [u8]),
    Text {
        bytes: &'b [u8],
        starts: &'b [u32],
        gap: u32,
    },
    Numbers(&'b [u64]),
    Fixed {
        places: &'b [Place],
        digits: Vec<(usize, usize)>,
        numbers: &'b [Vec<u64>],
        nibbles: &'b [u8],
        template: [u8; 64],
    },
    Dictionary {
        ids: &'b [u32],
        bytes: Vec<u8>,
        starts: Vec<u32>,
        gap: u32,
    },
    Split {
        tables: &'b [u32],
        rows: &'b [u32],
        sources: Vec<Vec<Self>>,
    },
    /// All in one table.
    Table(Vec<Self>),
}

impl<'b> Source<'b> {
    pub(crate) fn of(block: &'b Block, at: usize) -> Option<Self> {
        let node = block.node(at)?;
        Some(match &node.kind {
            Kind::Same(range) => Self::Literal(block.literal(range)),
            Kind::Copy(of) => return Self::of(block, *of),
            Kind::Raw(_) => match block.decoded(at)? {
                Decoded::Text { bytes, starts, gap } => Self::Text { bytes, starts, gap: *gap },
                _ => return None,
            },
            Kind::Integers(_) => match block.decoded(at)? {
                Decoded::Numbers(numbers) => Self::Numbers(numbers),
                _ => return None,
            },
            Kind::Fixed { places, nibbles, .. } => match block.decoded(at)? {
                Decoded::Fixed(numbers) => {
                    let mut template = [0; 64];
                    let mut digits = Vec::new();
                    let mut seen = 0;
                    for (at, (place, byte)) in places.iter().zip(&mut template).enumerate() {
                        match place {
                            Place::Same(same) => *byte = *same,
                            Place::Digit => {
                                digits.push((seen / crate::fixed::DIGITS_MAX, at));
                                seen += 1;
                            }
                            _ => {}
                        }
                    }
                    digits.reverse();
                    Self::Fixed { places, digits, numbers, nibbles: block.bytes(*nibbles)?, template }
                }
                _ => return None,
            },
            Kind::Dictionary { values, .. } | Kind::Mapped { values, .. } => {
                let Decoded::Ids(ids) = block.decoded(at)? else { return None };
                let (bytes, starts, gap) = texts(block, *values)?;
                Self::Dictionary { ids, bytes, starts, gap }
            }
            Kind::Split { order, rest, tables } => {
                if order.is_none() {
                    return Self::of_table(block, tables.first()?);
                }
                let Decoded::Order { tables: numbers, rows, .. } = block.decoded(at)? else { return None };
                let rest = rest.map(|rest| Self::of(block, rest));
                let mut sources = vec![match rest {
                    Some(rest) => vec![rest?],
                    None => Vec::new(),
                }];
                for one in tables {
                    sources.push(Self::parts(block, one)?);
                }
                Self::Split { tables: numbers, rows, sources }
            }
        })
    }

    /// The rows of a table.
    pub(crate) fn of_table(block: &'b Block, table: &Table) -> Option<Self> {
        Some(Self::Table(Self::parts(block, table)?))
    }

    fn parts(block: &'b Block, table: &Table) -> Option<Vec<Self>> {
        let part = |part: &Part| match part {
            Part::Literal(range) => Some(Self::Literal(block.literal(range))),
            Part::Column(node) => Self::of(block, *node),
        };
        table.parts.iter().map(part).collect()
    }

    /// Appends the value of a row.
    #[inline]
    pub(crate) fn push(&self, row: usize, out: &mut Out) -> Option<()> {
        match self {
            Self::Literal(bytes) => out.push(bytes),
            Self::Text { bytes, starts, gap } => push_text(bytes, starts, *gap, row, out),
            Self::Numbers(numbers) => out.push_number(*numbers.get(row)?),
            Self::Fixed { places, digits, numbers, nibbles, template } => {
                let mut value = *template;
                let mut rest = 0;
                let mut list = usize::MAX;
                for (number, at) in digits {
                    if *number != list {
                        list = *number;
                        rest = *numbers.get(list)?.get(row)?;
                    }
                    *value.get_mut(*at)? = b'0' + (rest % 10) as u8;
                    rest /= 10;
                }
                let bytes = crate::fixed::nibble_bytes(places);
                if bytes > 0 {
                    put_nibbles(places, nibbles.get(row * bytes..(row + 1) * bytes)?, &mut value);
                }
                out.push(value.get(..places.len())?)
            }
            Self::Dictionary { ids, bytes, starts, gap } => {
                push_text(bytes, starts, *gap, *ids.get(row)? as usize, out)
            }
            Self::Split { tables, rows, sources } => {
                let row_in = *rows.get(row)? as usize;
                push_all(sources.get(*tables.get(row)? as usize)?, row_in, out)
            }
            Self::Table(sources) => push_all(sources, row, out),
        }
    }
}

#[inline]
fn push_all(sources: &[Source<'_>], row: usize, out: &mut Out) -> Option<()> {
    for source in sources {
        source.push(row, out)?;
    }
    Some(())
}

#[inline]
fn push_text(bytes: &[u8], starts: &[u32], gap: u32, row: usize, out: &mut Out) -> Option<()> {
    let [start, end] = starts.get(row..row + 2)? else { return None };
    out.push_slack(bytes, *start as usize, (end - gap).checked_sub(*start)? as usize)
}

fn put_nibbles(places: &[Place], nibbles: &[u8], value: &mut [u8; 64]) {
    let count = places.iter().filter(|place| matches!(place, Place::Lower | Place::Upper)).count();
    let mut seen = 0;
    for (place, byte) in places.iter().zip(value) {
        let ten = match place {
            Place::Lower => b'a' - 10,
            Place::Upper => b'A' - 10,
            _ => continue,
        };
        let pair = nibbles.get(seen / 2).copied().unwrap_or_default();
        // The last one of an odd number stands alone.
        let high = seen % 2 == 0 && seen + 1 < count;
        let nibble = if high { pair >> 4 } else { pair & 15 };
        *byte = if nibble < 10 { b'0' + nibble } else { ten + nibble };
        seen += 1;
    }
}

/// All values of a column.
pub(crate) fn texts(block: &Block, at: usize) -> Option<(Vec<u8>, Vec<u32>, u32)> {
    let rows = block.node(at)?.rows;
    if let Kind::Raw(payload) = &block.node(at)?.kind {
        let Decoded::Text { bytes, starts, gap } = text(block.bytes(*payload)?, rows)? else { return None };
        return Some((bytes, starts, gap));
    }
    let source = Source::of(block, at)?;
    let mut starts = vec![0];
    let mut out = Out::new((rows * 64).min(block.text_len()));
    for row in 0..rows {
        out.push_growing(block.text_len(), |out| source.push(row, out))?;
        starts.push(out.len() as u32);
    }
    let mut bytes = out.into_text();
    bytes.resize(bytes.len() + SLACK, 0);
    Some((bytes, starts, 0))
}

impl Block {
    /// All lines, an LF after each; `None` when the block is damaged.
    #[must_use]
    pub fn text(&self) -> Option<Vec<u8>> {
        let source = Source::of(self, self.root())?;
        let mut out = Out::new(self.text_len());
        for row in 0..self.rows() {
            source.push(row, &mut out)?;
            out.push_byte(b'\n')?;
        }
        (out.len() == self.text_len()).then(|| out.into_text())
    }

    /// Some of the lines, an LF after each; `None` when the block is damaged.
    #[must_use]
    pub fn lines(&self, rows: impl Iterator<Item = usize>) -> Option<Vec<u8>> {
        let source = Source::of(self, self.root())?;
        let mut out = Out::new(self.text_len().min(FIRST_ROOM));
        for row in rows {
            out.push_growing(self.text_len(), |out| {
                source.push(row, out)?;
                out.push_byte(b'\n')
            })?;
        }
        Some(out.into_text())
    }
}
