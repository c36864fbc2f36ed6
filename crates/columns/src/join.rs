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

/// The values of a column with the same text behind each: one copy for both.
pub(crate) enum Joined<'b> {
    /// Of a dictionary, with their bytes.
    Texts(Vec<([u8; SLACK], u32)>),
    Spelled(Box<Speller<'b>>),
    /// It is another kind of column, or too long.
    Not,
}

impl<'b> Joined<'b> {
    /// Joins the values of a column with a text, of which `seen` were put so far; `None` when it may be worth that later.
    pub(crate) fn of(block: &'b Block, at: usize, seen: usize, tail: List) -> Option<Option<Self>> {
        let tail = block.literal(tail);
        match block.node(at)?.kind {
            Kind::Dictionary { values, .. } | Kind::Mapped { values, .. } => {
                let count = block.node(values)?.rows;
                if count > JOINED_MAX {
                    return Some(Some(Self::Not));
                }
                if seen < count * JOINED_WORTH {
                    return Some(None);
                }
                let values = block.values_of(at, values)?;
                let texts: Option<Vec<_>> = (0..count).map(|at| join(values.get(at)?, tail)).collect();
                Some(Some(texts.map_or(Self::Not, Self::Texts)))
            }
            Kind::Fixed { places, nibbles, .. } => {
                let Decoded::Fixed(numbers) = block.decoded(at)? else { return None };
                let mut spelling = Spelling::new(block.tree.places(places), numbers, block.bytes(nibbles)?)?;
                let joined = spelling.append(tail).map(|()| Self::Spelled(Speller::new(spelling).into()));
                Some(Some(joined.unwrap_or(Self::Not)))
            }
            _ => Some(Some(Self::Not)),
        }
    }
}

fn join(value: &[u8], tail: &[u8]) -> Option<([u8; SLACK], u32)> {
    let (mut text, len) = ([0; SLACK], value.len() + tail.len());
    let (head, behind) = text.get_mut(..len)?.split_at_mut(value.len());
    head.copy_from_slice(value);
    behind.copy_from_slice(tail);
    Some((text, len as u32))
}
