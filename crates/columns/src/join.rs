//! Values of a column with the text that follows all of them, so that one copy puts both.
//!
//! Half of what a line is put together from are the literals between its columns.
#![deny(clippy::indexing_slicing)]

use crate::decode::Decoded;
use crate::open::{Block, SLACK};
use crate::spell::{Speller, Spelling};
use crate::tree::{Kind, List};

/// Dictionaries with more values are not joined with what follows: these lie in the nearest cache as they are, and would not
/// joined.
const JOINED_MAX: usize = 256;

/// So many values for each of the dictionary make it worth to join all of it.
const JOINED_WORTH: usize = 4;

/// A short text that follows all values of a column.
#[derive(Clone, Copy)]
pub(crate) struct Tail<'b> {
    /// With what lies behind it.
    text: &'b [u8; SLACK],
    len: u32,
}

impl Default for Tail<'_> {
    fn default() -> Self {
        Self { text: &[0; SLACK], len: 0 }
    }
}

impl<'b> Tail<'b> {
    /// A literal, if it is short.
    pub(crate) fn of(block: &'b Block, literal: List) -> Option<Self> {
        let (start, end) = literal.bounds();
        let text = block.literals_on(start)?.first_chunk()?;
        (end - start <= SLACK).then_some(Self { text, len: (end - start) as u32 })
    }

    pub(crate) fn is_empty(self) -> bool {
        self.len == 0
    }

    fn bytes(self) -> &'b [u8] {
        self.text.get(..self.len as usize).unwrap_or_default()
    }

    /// Puts it at a place, and moves that behind it.
    #[inline]
    pub(crate) fn put(self, text: &mut [u8], place: &mut u32) -> Option<()> {
        let to: &mut [u8; SLACK] = text.get_mut(*place as usize..)?.first_chunk_mut()?;
        *to = *self.text;
        *place = place.wrapping_add(self.len);
        Some(())
    }
}

/// A value and the text behind it, and the bytes of both.
pub(crate) type Pair = ([u8; SLACK], u32);

/// The values of a column with the same text behind each: one copy for both.
pub(crate) enum Joined<'b> {
    /// Not yet: so many values were put.
    Seen(usize),
    /// Of a dictionary, with their bytes.
    Texts(Vec<Pair>),
    /// What is left of the text does not fit behind the values.
    Spelled(Box<Speller<'b>>, Tail<'b>),
    /// There are too many, or they are too long.
    Not,
}

impl Default for Joined<'_> {
    fn default() -> Self {
        Self::Seen(0)
    }
}

impl<'b> Joined<'b> {
    /// The values of the dictionary `at` with a text, of which `more` are to be put; `None` when they are better put one
    /// after the other.
    pub(crate) fn texts(
        &mut self,
        block: &'b Block,
        at: usize,
        more: usize,
        tail: Tail<'b>,
    ) -> Option<Option<&[Pair]>> {
        if let Self::Seen(seen) = self {
            let (Kind::Dictionary { values, .. } | Kind::Mapped { values, .. }) = block.node(at)?.kind else {
                return None;
            };
            let count = block.node(values)?.rows;
            *seen += more;
            if count > JOINED_MAX {
                *self = Self::Not;
            } else if *seen >= count * JOINED_WORTH {
                let values = block.values_of(at, values)?;
                let texts: Option<Vec<_>> = (0..count).map(|at| join(values.get(at)?, tail.bytes())).collect();
                *self = texts.map_or(Self::Not, Self::Texts);
            }
        }
        Some(match self {
            Self::Texts(texts) => Some(texts),
            _ => None,
        })
    }

    /// What writes values of the column `at`, of fixed places, with a text; and what has to be put behind them.
    pub(crate) fn speller(
        &mut self,
        block: &'b Block,
        at: usize,
        tail: Tail<'b>,
    ) -> Option<(&mut Speller<'b>, Tail<'b>)> {
        if let Self::Seen(_) = self {
            let (Kind::Fixed { places, nibbles, .. }, Decoded::Fixed(numbers)) =
                (block.node(at)?.kind, block.decoded(at)?)
            else {
                return None;
            };
            let mut spelling = Spelling::new(block.tree.places(places), numbers, block.bytes(nibbles)?)?;
            let rest = spelling.append(tail.bytes()).map_or(tail, |()| Tail::default());
            *self = Self::Spelled(Speller::new(spelling).into(), rest);
        }
        match self {
            Self::Spelled(speller, rest) => Some((speller, *rest)),
            _ => None,
        }
    }
}

fn join(value: &[u8], tail: &[u8]) -> Option<Pair> {
    let (mut text, len) = ([0; SLACK], value.len() + tail.len());
    let (head, behind) = text.get_mut(..len)?.split_at_mut(value.len());
    head.copy_from_slice(value);
    behind.copy_from_slice(tail);
    Some((text, len as u32))
}
