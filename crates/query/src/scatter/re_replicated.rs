//! Which stores that are gone need not come back for an answer to be whole: what they kept is kept by enough others.
//!
//! A store walks over all that it holds when others are lost, and tells whom it can do without ([`Facts::re_replicated`]): of all
//! that it held then as many copies as promised lie on stores that were not lost. That is not enough by itself. A record that
//! two kept, of which one is lost, and the other before it has walked, is seen by nobody's walk. So those that are gone are
//! taken out of the reckoning a group at a time, and a group only when
//!
//! - it is smaller than the number of copies, so that of each record one copy at least was outside of it, and
//! - all other stores, also those that are gone themselves, by what they told last, can do without it and all that were
//!   taken out before it. So wherever that one copy was, it was walked over.
//!
//! After that each record has as many copies as promised on the stores that are left, and the next group may go. What is new
//! is kept by as many stores as promised of those that are there.
//!
//! Invariant: no clock is compared with another. Who can do without a store names the last facts of it by their mark; when it
//! is back it tells new ones, and then that is not said of it any more, whoever has not heard of it.
//!
//! What it does not see: a store that came back and was gone again before anybody here heard of it. What it took lies in the
//! queue of who accepted it for half a minute after that, and is found there; news take a second.

use std::collections::BTreeSet;

use bucksaw_cluster::{Facts, Member, MemberState};
use bucksaw_record::Id;

/// A store, there or not.
#[derive(Clone, Copy)]
struct StoreState<'a> {
    facts: &'a Facts,
    mark: u64,
    is_lost: bool,
}

impl StoreState<'_> {
    fn has_re_replicated(&self, others: &[StoreState<'_>]) -> bool {
        others.iter().all(|other| self.facts.re_replicated.contains(&other.mark))
    }
}

/// The stores among these nodes that are gone and need not come back, where each record is kept by so many.
#[must_use]
pub fn re_replicated_stores(members: &[Member], replication_factor: usize) -> BTreeSet<Id> {
    // Who said goodbye with nothing on its store is none.
    let is_store = |member: &&Member| {
        member.facts.roles.store && (member.state != MemberState::Left || member.facts.stored.bytes > 0)
    };
    let stores = members.iter().filter(is_store);
    let mut left: Vec<StoreState<'_>> = stores
        .map(|member| StoreState { facts: &member.facts, mark: member.facts.fingerprint(), is_lost: !member.is_live() })
        .collect();
    let mut out: Vec<StoreState<'_>> = Vec::new();
    while let Some(group) = left.iter().find_map(|first| independent_group(*first, &left, &out, replication_factor)) {
        left.retain(|store| group.iter().all(|gone| gone.facts.node != store.facts.node));
        out.extend(group);
    }
    out.iter().map(|store| store.facts.node).collect()
}

/// The smallest group with this store that all others of those that are `left` can do without, and without those that are
/// `out`; none when it would be too large.
fn independent_group<'a>(
    first: StoreState<'a>,
    left: &[StoreState<'a>],
    out: &[StoreState<'a>],
    copies: usize,
) -> Option<Vec<StoreState<'a>>> {
    let mut group = vec![first];
    loop {
        // It takes as many to hold what the walks have seen to.
        if !group.iter().all(|store| store.is_lost) || group.len() >= copies || left.len() < group.len() + copies {
            return None;
        }
        let is_in = |store: &StoreState<'_>| group.iter().any(|one| one.facts.node == store.facts.node);
        let mut others = left.iter().filter(|store| !is_in(store));
        // Who cannot do without it can only be a part of it.
        match others.find(|store| !(store.has_re_replicated(&group) && store.has_re_replicated(out))) {
            Some(store) => group.push(*store),
            None => return Some(group),
        }
    }
}

#[cfg(test)]
mod tests;
