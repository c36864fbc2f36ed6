//! Columns of a table that say the same as another one, or follow from it.
//!
//! Logs say many things twice: an address and its name, a logger and the class it is in. Of two dictionaries, where each
//! value of one always comes with the same value of the other, only the map from one to the other is kept. That the
//! columns of a table are looked at in pairs is cheap, because nearly all pairs part within the first rows.

use crate::encode::Node;

/// Rows that tell most pairs apart.
const FIRST_ROWS: usize = 32;

/// Links the columns of a table.
pub(crate) fn link(columns: &mut [Node]) {
    map_dictionaries(columns);
    find_copies(columns);
}

/// The codes of a dictionary.
fn codes(column: &Node) -> Option<(&[u32], usize)> {
    match column {
        Node::Dictionary { ids, distinct, .. } => Some((ids, *distinct)),
        _ => None,
    }
}

fn map_dictionaries(columns: &mut [Node]) {
    let distinct = |at: &usize| columns.get(*at).and_then(codes).map(|(_, distinct)| distinct);
    let mut order: Vec<usize> = (0..columns.len()).filter(|at| distinct(at).is_some()).collect();
    // Those with more values can lead those with fewer.
    order.sort_by_key(|at| std::cmp::Reverse(distinct(at)));
    let mut leaders: Vec<usize> = Vec::new();
    for at in order {
        let Some((ids, own)) = codes(&columns[at]) else { continue };
        // The last leader has the fewest values, so the map is the shortest.
        let found = leaders.iter().rev().find_map(|leader| {
            let (from, distinct) = codes(&columns[*leader])?;
            let pays = distinct * 4 <= ids.len() * 3 && (distinct <= own * 16 || distinct * 8 <= ids.len());
            if pays { map(from, ids, distinct).map(|map| (*leader, map)) } else { None }
        });
        let Some((leader, map)) = found else {
            leaders.push(at);
            continue;
        };
        if columns[at] == columns[leader] {
            columns[at] = Node::Copy { column: leader };
        } else if let Node::Dictionary { values, .. } = &mut columns[at] {
            let values = std::mem::replace(values, Box::new(Node::Copy { column: leader }));
            columns[at] = Node::Mapped { leader, map, values };
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

fn find_copies(columns: &mut [Node]) {
    let is_own = |column: &Node| {
        let linked =
            matches!(column, Node::Dictionary { .. } | Node::Mapped { .. } | Node::Copy { .. } | Node::Same(_));
        !linked
    };
    for at in 1..columns.len() {
        let (before, rest) = columns.split_at_mut(at);
        let Some(mine) = rest.first_mut().filter(|mine| is_own(mine)) else { continue };
        if let Some(column) = before.iter().position(|other| other == mine) {
            *mine = Node::Copy { column };
        }
    }
}
