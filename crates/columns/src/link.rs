//! Columns of a table that say the same as another one, or follow from it.
//!
//! Logs say many things twice: an address and its name, a logger and the class it is in. Of two dictionaries, where each
//! value of one always comes with the same value of the other, only the map from one to the other is kept. That the
//! columns of a table are looked at in pairs is cheap, because nearly all pairs part within the first rows.

use crate::encode::{Node, Piece};
use crate::hash::{hash, same};

/// Rows that tell most pairs apart.
const FIRST_ROWS: usize = 32;

/// Links the columns of a table.
pub(crate) fn link(text: &[u8], pieces: &mut [Piece]) {
    map_dictionaries(text, pieces);
    find_copies(text, pieces);
}

/// The codes of a dictionary.
fn codes(piece: &Piece) -> Option<(&[u32], usize)> {
    match &piece.node {
        Node::Dictionary { ids, distinct, .. } => Some((ids, *distinct)),
        _ => None,
    }
}

fn map_dictionaries(text: &[u8], pieces: &mut [Piece]) {
    let distinct = |at: &usize| pieces.get(*at).and_then(codes).map(|(_, distinct)| distinct);
    let mut order: Vec<usize> = (0..pieces.len()).filter(|at| distinct(at).is_some()).collect();
    // Those with more values can lead those with fewer.
    order.sort_by_key(|at| std::cmp::Reverse(distinct(at)));
    let mut leaders: Vec<usize> = Vec::new();
    for at in order {
        let Some((ids, own)) = codes(&pieces[at]) else { continue };
        // The last leader has the fewest values, so the map is the shortest.
        let found = leaders.iter().rev().find_map(|leader| {
            let (from, distinct) = codes(&pieces[*leader])?;
            let pays = distinct * 4 <= ids.len() * 3 && (distinct <= own * 16 || distinct * 8 <= ids.len());
            if pays { map(from, ids, distinct).map(|map| (*leader, map)) } else { None }
        });
        let Some((leader, map)) = found else {
            leaders.push(at);
            continue;
        };
        let is_copy = are_same(text, &pieces[leader], &pieces[at]);
        let node = std::mem::replace(&mut pieces[at].node, Node::Copy { column: leader });
        if let (false, Node::Dictionary { values, .. }) = (is_copy, node) {
            pieces[at].node = Node::Mapped { leader, map, values };
        }
    }
}

/// The code in `to` for each of `from`, if it follows.
fn map(from: &[u32], to: &[u32], distinct: usize) -> Option<Vec<u32>> {
    let first = from.len().min(FIRST_ROWS);
    for row in 1..first {
        let before = from[..row].iter().position(|code| *code == from[row]);
        if before.is_some_and(|before| to[before] != to[row]) {
            return None;
        }
    }
    let mut map = vec![u32::MAX; distinct];
    for (from, to) in from.iter().zip(to) {
        let place = &mut map[*from as usize];
        if *place == u32::MAX {
            *place = *to;
        } else if place != to {
            return None;
        }
    }
    Some(map)
}

fn find_copies(text: &[u8], pieces: &mut [Piece]) {
    // Of the first row, so that columns are compared only where that is the same.
    let keys: Vec<u64> = pieces.iter().map(|piece| hash(piece.values(text).get(0))).collect();
    let is_own = |piece: &Piece| {
        let linked =
            matches!(piece.node, Node::Dictionary { .. } | Node::Mapped { .. } | Node::Copy { .. } | Node::Same(_));
        !linked
    };
    for at in 1..pieces.len() {
        if !is_own(&pieces[at]) {
            continue;
        }
        let twin = (0..at).find(|other| {
            let other_piece = &pieces[*other];
            keys[*other] == keys[at] && is_own(other_piece) && are_same(text, &pieces[at], other_piece)
        });
        if let Some(column) = twin {
            pieces[at].node = Node::Copy { column };
        }
    }
}

/// Whether two columns have the same values.
fn are_same(text: &[u8], mine: &Piece, other: &Piece) -> bool {
    let (mine, others) = (mine.values(text).iter(), other.values(text).iter());
    mine.zip(others).all(|(mine, other)| same(mine, other))
}
