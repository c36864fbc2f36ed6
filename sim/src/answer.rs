//! Answers: what a reader finds who asks one node after the other while records move.
//!
//! As a query does, it asks each node once, queue before shelf, at moments that lie apart, merges by id and drops equal ids: those with equal texts,
//! so that one id with two texts is seen.
//! A machine that is not there, or a store that tells of damage, makes the answer partial, and then nothing is missing in it.
//!
//! This stands for the query as long as queries do not ask other nodes: [`Answer::next`] is where their call belongs.

use std::collections::BTreeSet;
use std::sync::Arc;

use bucksaw_record::Id;

use crate::chance::Chance;
use crate::fleet::Fleet;
use crate::ledger::{Ledger, Violation};
use crate::plant::Mutation;

/// An answer that is put together.
pub(crate) struct Answer {
    /// What must be in it, if it is complete.
    due: BTreeSet<Id>,
    /// Machines still to be asked.
    left: Vec<usize>,
    found: Vec<(Id, Arc<str>)>,
    is_complete: bool,
}

impl Answer {
    /// Asks.
    pub(crate) fn begin(fleet: &Fleet, ledger: &Ledger, chance: &Chance) -> Self {
        let machines = fleet.machines.iter().enumerate();
        let mut all: Vec<usize> = machines.filter(|(_, machine)| !machine.away).map(|(at, _)| at).collect();
        let mut left = Vec::new();
        while !all.is_empty() {
            left.push(all.swap_remove(chance.below(all.len())));
        }
        Self { due: ledger.due(), left, found: Vec::new(), is_complete: true }
    }

    /// Has some of the machines asked at this moment; true when all were.
    pub(crate) fn next(&mut self, fleet: &Fleet, count: usize) -> bool {
        for at in self.left.drain(..count.min(self.left.len())) {
            let is_there = fleet.machines.get(at).is_some_and(|machine| !machine.host.is_paused());
            match fleet.look(at).filter(|_| is_there) {
                Some(parts) => {
                    for part in parts {
                        self.found.extend(part.records());
                        self.is_complete &= !part.is_partial;
                    }
                }
                None => self.is_complete = false,
            }
        }
        self.left.is_empty()
    }

    /// What is wrong with it.
    pub(crate) fn check(self, ledger: &Ledger, planted: Option<Mutation>) -> Vec<Violation> {
        let mut found = self.found;
        found.sort();
        if planted != Some(Mutation::NotDeduplicated) {
            found.dedup();
        }
        let due = if self.is_complete { self.due } else { BTreeSet::new() };
        ledger.check(&due, &found)
    }
}
