//! Selects lost stores whose records are all on enough other stores, so that an answer is complete without them.
//!
//! While stores are lost, each remaining store makes a pass over its records, then publishes the lost stores that it
//! has re-replicated ([`Facts::re_replicated`]). After the pass, each of these records has its full replication factor
//! on stores that are not lost. One pass is not sufficient: if both stores of a record are lost, the second before its
//! pass, no pass covers the record. So lost stores are excluded in groups. A group is excluded only if
//!
//! - it is smaller than the replication factor, so each record had at least one replica outside of the group, and
//! - all other stores, by their last facts, have re-replicated the group and all groups before it. This includes lost
//!   stores. So a pass has covered that replica, whichever store holds it.
//!
//! Then each record has as many replicas as the replication factor on the remaining stores, and the next group follows. New
//! records are replicated among live stores.
//!
//! Invariant: clocks of different nodes are not compared. A lost store is named by the fingerprint of its last facts; when
//! it returns it publishes new facts, and no earlier claim applies to it.
//!
//! Not covered: a store that returns and is lost again before this node receives its facts. What it took meanwhile stays
//! readable in the queue of the accepting node for half a minute; gossip takes a second.

use std::collections::BTreeSet;

use bucksaw_cluster::{Facts, Member, MemberState};
use bucksaw_record::Id;

#[derive(Clone, Copy)]
struct StoreState<'a> {
    facts: &'a Facts,
    fingerprint: u64,
    is_lost: bool,
}

impl StoreState<'_> {
    fn has_re_replicated(&self, stores: &[StoreState<'_>]) -> bool {
        stores.iter().all(|store| self.facts.re_replicated.contains(&store.fingerprint))
    }
}

/// The lost stores of a cluster whose records are all on as many other stores as the replication factor.
pub fn re_replicated_stores(members: &[Member], replication_factor: usize) -> BTreeSet<Id> {
    // A node that left with an empty store is none.
    let is_store = |member: &&Member| {
        member.facts.roles.store && (member.state != MemberState::Left || member.facts.stored.bytes > 0)
    };
    let stores = members.iter().filter(is_store);
    let mut remaining: Vec<StoreState<'_>> = stores
        .map(|member| {
            let facts = &member.facts;
            StoreState { facts, fingerprint: facts.fingerprint(), is_lost: !member.is_live() }
        })
        .collect();
    let mut excluded: Vec<StoreState<'_>> = Vec::new();
    while let Some(group) =
        remaining.iter().find_map(|first| independent_group(*first, &remaining, &excluded, replication_factor))
    {
        remaining.retain(|store| group.iter().all(|lost| lost.facts.node != store.facts.node));
        excluded.extend(group);
    }
    excluded.iter().map(|store| store.facts.node).collect()
}

/// The smallest group with the store `first` that all other `remaining` stores have re-replicated together with the
/// `excluded` ones; `None` if it would be too large.
fn independent_group<'a>(
    first: StoreState<'a>,
    remaining: &[StoreState<'a>],
    excluded: &[StoreState<'a>],
    replication_factor: usize,
) -> Option<Vec<StoreState<'a>>> {
    let mut group = vec![first];
    loop {
        let are_lost = group.iter().all(|store| store.is_lost);
        // Enough stores must remain to hold the replicas.
        if !are_lost || group.len() >= replication_factor || remaining.len() < group.len() + replication_factor {
            return None;
        }
        let is_in_group = |store: &StoreState<'_>| group.iter().any(|lost| lost.facts.node == store.facts.node);
        let mut others = remaining.iter().filter(|store| !is_in_group(store));
        // A store that has not re-replicated the group can only be part of it.
        match others.find(|store| !(store.has_re_replicated(&group) && store.has_re_replicated(excluded))) {
            Some(store) => group.push(*store),
            None => return Some(group),
        }
    }
}

#[cfg(test)]
mod tests;
