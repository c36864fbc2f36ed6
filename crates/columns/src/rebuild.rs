//! Single values from columns. (`weave` puts many together.)
#![deny(clippy::indexing_slicing)]

use std::cell::OnceCell;

use crate::decimal;
use crate::decode::{Decoded, TextsAt};
use crate::ids::IdsAt;
use crate::open::{Block, SLACK};
use crate::spell::{ROOM, Spelling};
use crate::tree::{Kind, List, Part, Table};

/// Text that grows up to a bound. Behind it there is room for a value of fixed size.
pub(crate) struct Out {
    bytes: Vec<u8>,
    len: usize,
    max: usize,
}

impl Out {
    pub(crate) fn new(max: usize) -> Self {
        Self { bytes: vec![0; max.saturating_add(ROOM)], len: 0, max }
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

    /// Where the next bytes go.
    #[inline]
    fn room(&mut self) -> Option<&mut [u8; ROOM]> {
        self.bytes.get_mut(self.len..)?.first_chunk_mut()
    }

    #[inline]
    fn push_number(&mut self, number: u64) -> Option<()> {
        self.len += decimal::write(number as i64, self.room()?);
        (self.len <= self.max).then_some(())
    }

    pub(crate) fn shrink_to(&mut self, len: usize) {
        self.len = len;
    }

    /// Doubles the room, up to `most` bytes.
    fn grow(&mut self, most: usize) -> Option<()> {
        self.max = (self.max.max(512) * 2).min(most);
        let room = self.max + ROOM;
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

    pub(crate) fn text(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// What gives the values of a column.
pub(crate) enum Source<'b> {
    /// The text of all literals from this one on, and its bytes.
    Literal(&'b [u8], usize),
    Text(TextsAt<'b>),
    Numbers(&'b [u64]),
    Fixed(Box<Spelling<'b>>),
    Dictionary {
        ids: IdsAt<'b>,
        texts: TextsAt<'b>,
    },
    Split(Tables<'b>),
    /// All in one table.
    Table(Vec<Self>),
}

/// Values by their layout.
pub(crate) struct Tables<'b> {
    block: &'b Block,
    /// Of each value.
    pub(crate) numbers: IdsAt<'b>,
    /// The row of each value in its table.
    pub(crate) rows: &'b [u32],
    rest: Option<usize>,
    tables: &'b [Table],
    /// Of `rest` and the tables, made when one of their rows is asked for.
    sources: Vec<OnceCell<Option<Vec<Source<'b>>>>>,
}

impl<'b> Tables<'b> {
    /// How many tables there are.
    pub(crate) fn table_count(&self) -> usize {
        self.tables.len()
    }

    /// The columns of the table with this number; 0 is for what is kept whole.
    pub(crate) fn columns(&self, number: usize) -> Option<&[Source<'b>]> {
        let columns = self.sources.get(number)?.get_or_init(|| match number.checked_sub(1) {
            None => Some(vec![Source::of(self.block, self.rest?)?]),
            Some(table) => Source::parts(self.block, self.tables.get(table)?),
        });
        columns.as_deref()
    }
}

impl<'b> Source<'b> {
    pub(crate) fn of(block: &'b Block, at: usize) -> Option<Self> {
        Some(match block.node(at)?.kind {
            Kind::Same(list) => Self::literal(block, list)?,
            Kind::Copy(of) => return Self::of(block, of),
            Kind::Raw(payload) => Self::Text(block.raw_texts(at, payload)?),
            Kind::Integers(_) => match block.decoded(at)? {
                Decoded::Numbers(numbers) => Self::Numbers(numbers),
                _ => return None,
            },
            Kind::Fixed { places, nibbles, .. } => match block.decoded(at)? {
                Decoded::Fixed(numbers) => {
                    let (places, nibbles) = (block.tree.places(places), block.bytes(nibbles)?);
                    Self::Fixed(Spelling::new(places, numbers, nibbles)?.into())
                }
                _ => return None,
            },
            Kind::Dictionary { values, .. } | Kind::Mapped { values, .. } => {
                Self::Dictionary { ids: block.ids_of(at)?, texts: block.values_of(at, values)? }
            }
            Kind::Split { order: None, tables, .. } => {
                return Self::of_table(block, block.tree.tables(tables).first()?);
            }
            Kind::Split { rest, tables, .. } => {
                let Decoded::Order { tables: numbers, rows, .. } = block.decoded(at)? else { return None };
                let numbers = numbers.at(block)?;
                let tables = block.tree.tables(tables);
                let mut sources = Vec::new();
                sources.resize_with(tables.len() + 1, OnceCell::new);
                Self::Split(Tables { block, numbers, rows, rest, tables, sources })
            }
        })
    }

    fn literal(block: &'b Block, list: List) -> Option<Self> {
        let (start, end) = list.bounds();
        Some(Self::Literal(block.literals_on(start)?, end - start))
    }

    /// The rows of a table.
    pub(crate) fn of_table(block: &'b Block, table: &Table) -> Option<Self> {
        Some(Self::Table(Self::parts(block, table)?))
    }

    fn parts(block: &'b Block, table: &Table) -> Option<Vec<Self>> {
        let part = |part: &Part| match part {
            Part::Literal(list) => Self::literal(block, *list),
            Part::Column(node) => Self::of(block, *node),
        };
        block.tree.parts(table).iter().map(part).collect()
    }

    /// The value of a row, where it lies somewhere as it is.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&'b [u8]> {
        match self {
            Self::Literal(bytes, len) => bytes.get(..*len),
            Self::Text(texts) => texts.get(row),
            Self::Dictionary { ids, texts } => texts.get(ids.get(row)?),
            _ => None,
        }
    }

    /// Appends the value of a row.
    #[inline]
    pub(crate) fn push(&self, row: usize, out: &mut Out) -> Option<()> {
        match self {
            Self::Literal(bytes, len) => out.push_slack(bytes, 0, *len),
            Self::Text(texts) => push_text(texts, row, out),
            Self::Numbers(numbers) => out.push_number(*numbers.get(row)?),
            Self::Fixed(spelling) => {
                out.len += spelling.write(row, out.room()?)?;
                (out.len <= out.max).then_some(())
            }
            Self::Dictionary { ids, texts } => push_text(texts, ids.get(row)?, out),
            Self::Split(tables) => {
                let columns = tables.columns(tables.numbers.get(row)?)?;
                push_all(columns, *tables.rows.get(row)? as usize, out)
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
fn push_text(texts: &TextsAt<'_>, row: usize, out: &mut Out) -> Option<()> {
    let [start, end] = texts.starts.get(row..row + 2)? else { return None };
    out.push_slack(texts.bytes, *start as usize, (end - texts.gap).checked_sub(*start)? as usize)
}
