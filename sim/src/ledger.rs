//! The record ledger: what clients sent, and the outcome of each record.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use bucksaw_env::lock;

use bucksaw_ingest::Durability;
use bucksaw_record::Id;

use crate::erased_records::is_erased;
use crate::query_filter::QueryFilter;

/// The outcome of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SentStatus {
    /// Every attempt was refused: it must not be found.
    Refused,
    /// Unknown to the client: it may be found once.
    Unknown,
    /// Acknowledged, and perhaps lost by damage: only a partial answer may lack it.
    MayBeLost,
    /// It must be found once.
    Acknowledged,
}

impl SentStatus {
    /// Whether a complete answer must have it.
    fn is_required(self) -> bool {
        matches!(self, Self::Acknowledged | Self::MayBeLost)
    }
}

/// A sent record.
#[derive(Clone, Debug)]
pub(crate) struct SentRecord {
    pub(crate) text: String,
    pub(crate) durability: Durability,
    pub(crate) fate: SentStatus,
    /// The node that acknowledged it.
    pub(crate) node: Option<usize>,
}

/// A property that a run violated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Acknowledged, and missing from a complete answer.
    Lost(Id),
    /// Refused, and found.
    RefusedButFound(Id),
    /// Never sent, or sent with another text.
    NeverSent(Id),
    /// In an answer whose filter it does not match.
    Unmatched(Id),
    /// Erased, and found.
    Erased(Id),
    /// More than once in an answer.
    Duplicated(Id),
    /// A node acknowledged two bodies with one key.
    KeyReused(String, usize),
    /// Out of order in an answer.
    OutOfOrder(Id),
    /// A count outside of its bounds.
    Miscounted {
        /// The reported count.
        count: u64,
        /// Records that must be counted.
        least: u64,
        /// Records that may be.
        most: u64,
    },
    /// On fewer stores than the replication factor in a healthy cluster.
    UnderReplicated(Id, usize),
    /// Damage that is not reported, or reported without a fault.
    UnreportedDamage(String),
    /// Something does not end in a healthy cluster.
    Stuck(String),
    /// An append or query fails in a healthy cluster.
    Unanswered(String),
    /// Nodes disagree on the members of a healthy cluster.
    MembershipMismatch(String),
    /// The program panicked.
    Panicked(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(id) => write!(f, "{id} was acknowledged and is not found"),
            Self::RefusedButFound(id) => write!(f, "{id} was refused, but is found"),
            Self::NeverSent(id) => write!(f, "{id} was never sent, or was sent with another text"),
            Self::Unmatched(id) => write!(f, "{id} does not match the filter of its answer"),
            Self::Erased(id) => write!(f, "{id} was erased, but is found"),
            Self::Duplicated(id) => write!(f, "{id} is duplicated in one answer"),
            Self::KeyReused(key, node) => write!(f, "node {node} acknowledged two bodies with the key `{key}`"),
            Self::OutOfOrder(id) => write!(f, "{id} is out of order in an answer"),
            Self::Miscounted { count, least, most } => {
                write!(f, "{count} records were counted, expected {least} to {most}")
            }
            Self::UnderReplicated(id, copies) => write!(f, "{id} is under-replicated: {copies} replicas"),
            Self::UnreportedDamage(what) => write!(f, "unreported damage: {what}"),
            Self::Stuck(what) => write!(f, "stuck: {what}"),
            Self::Unanswered(what) => write!(f, "not answered: {what}"),
            Self::MembershipMismatch(what) => write!(f, "membership mismatch: {what}"),
            Self::Panicked(what) => write!(f, "panicked: {what}"),
        }
    }
}

/// The ledger, shared by clients and checks.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordLedger(Arc<Mutex<LedgerEntries>>);

#[derive(Debug, Default)]
pub(crate) struct LedgerEntries {
    pub(crate) entries: BTreeMap<Id, SentRecord>,
    /// The first id of each text. Never iterated, so its order has no effect.
    texts: HashMap<String, Id>,
    /// Records sent before with another id.
    resent: BTreeMap<Id, Id>,
    /// Records of damaged files, by machine.
    damaged: BTreeMap<usize, BTreeSet<Id>>,
    /// How often each node lost unsynced data.
    data_losses: BTreeMap<usize, u64>,
    /// For nodes with lost disks, the value of `data_losses` after the loss.
    destroyed_disks: BTreeMap<usize, u64>,
    /// Keyed batches by key.
    keyed_batches: BTreeMap<String, KeyedBatch>,
    /// Positions of their texts. Never iterated.
    keyed_texts: HashMap<String, KeyedPosition>,
    /// Nodes that acknowledged two bodies with one key.
    reused_keys: Vec<Violation>,
    /// Nodes whose clocks were so wrong that they may ignore the time in a key.
    skewed_clocks: BTreeSet<usize>,
    /// Whether the run erases records. Those may be missing before, too: the time of the erasure is that of a node's clock.
    erases: bool,
}

/// The batches with one idempotency key. The node assigns their ids, so the client may not know them.
#[derive(Debug)]
struct KeyedBatch {
    /// One body, or two, of which a node may accept only one.
    bodies: Vec<KeyedBody>,
    durability: Durability,
    /// The key carries its time: every node assigns the same ids to a body.
    has_key_time: bool,
    tried_nodes: BTreeSet<usize>,
    /// A node may have forgotten the time of the key, as documented: a body may be stored more than once.
    may_be_duplicated: bool,
    /// Nodes that may have forgotten the key and so may accept another body.
    nodes_without_key: BTreeSet<usize>,
}

#[derive(Debug)]
struct KeyedBody {
    texts: Vec<String>,
    tries: usize,
    /// The number of refused tries.
    refused: usize,
    /// The nodes that acknowledged it.
    acknowledged_by: BTreeSet<usize>,
}

/// The position of a text: key, body, and number of the record.
#[derive(Debug)]
struct KeyedPosition {
    key: String,
    body: usize,
    at: usize,
}

impl RecordLedger {
    pub(crate) fn lock(&self) -> MutexGuard<'_, LedgerEntries> {
        lock(&self.0)
    }

    /// Excuses the records that an erasure selects.
    pub(crate) fn expect_erasure(&self) {
        self.lock().erases = true;
    }

    /// Called before a record is sent for the first time.
    pub(crate) fn record_sent(&self, id: Id, text: String, durability: Durability) {
        let mut known = self.lock();
        let first = *known.texts.entry(text.clone()).or_insert(id);
        if first != id {
            known.resent.insert(id, first);
        }
        known.entries.insert(id, SentRecord { text, durability, fate: SentStatus::Refused, node: None });
    }

    /// Called before each attempt: from now on the records may be found.
    pub(crate) fn record_try(&self, ids: &[Id]) {
        self.update(ids, |_, entry| {
            if entry.fate == SentStatus::Refused {
                entry.fate = SentStatus::Unknown;
            }
        });
    }

    /// All attempts were refused, so nothing was stored.
    pub(crate) fn record_refused(&self, ids: &[Id]) {
        self.update(ids, |_, entry| entry.fate = SentStatus::Refused);
    }

    /// A node acknowledged the records when it had lost data `cuts` times. It may have lost data again before the reply
    /// arrived.
    pub(crate) fn record_acknowledged(&self, ids: &[Id], node: usize, cuts: u64) {
        let (erases, cut, destroyed, damaged) = {
            let known = self.lock();
            (
                known.erases,
                known.data_losses.get(&node).is_some_and(|now| *now != cuts),
                known.destroyed_disks.get(&node).is_some_and(|lost| cuts < *lost),
                known.damaged.get(&node).cloned().unwrap_or_default(),
            )
        };
        self.update(ids, |id, entry| {
            let excused = match entry.durability {
                Durability::Fast => cut || destroyed,
                Durability::Durable => destroyed,
                Durability::Bulk => false,
            };
            let is_left_out = erases && is_erased(&entry.text);
            if !excused && !is_left_out {
                // The file may have been damaged before the reply arrived.
                let is_damaged = entry.durability != Durability::Bulk && damaged.contains(&id);
                entry.fate = if is_damaged { SentStatus::MayBeLost } else { SentStatus::Acknowledged };
                entry.node = Some(node);
            }
        });
    }

    /// Called before the first body with a key is sent.
    pub(crate) fn record_keyed_batch(
        &self,
        key: &str,
        bodies: Vec<Vec<String>>,
        durability: Durability,
        has_key_time: bool,
    ) {
        let mut known = self.lock();
        for (body, texts) in bodies.iter().enumerate() {
            for (at, text) in texts.iter().enumerate() {
                known.keyed_texts.insert(text.clone(), KeyedPosition { key: key.to_owned(), body, at });
            }
        }
        let body = |texts| KeyedBody { texts, tries: 0, refused: 0, acknowledged_by: BTreeSet::new() };
        let bodies = bodies.into_iter().map(body).collect();
        let keyed = KeyedBatch {
            bodies,
            durability,
            has_key_time,
            tried_nodes: BTreeSet::new(),
            may_be_duplicated: false,
            nodes_without_key: BTreeSet::new(),
        };
        known.keyed_batches.insert(key.to_owned(), keyed);
    }

    /// Called before a body is sent to a node.
    pub(crate) fn record_keyed_try(&self, key: &str, body: usize, node: usize) {
        let mut known = self.lock();
        let is_skewed = known.skewed_clocks.contains(&node);
        let Some(keyed) = known.keyed_batches.get_mut(key) else { return };
        keyed.tried_nodes.insert(node);
        keyed.may_be_duplicated |= keyed.has_key_time && is_skewed;
        if let Some(body) = keyed.bodies.get_mut(body) {
            body.tries += 1;
        }
    }

    /// An attempt was refused, so nothing of it was stored.
    pub(crate) fn record_keyed_refused(&self, key: &str, body: usize) {
        if let Some(body) = self.lock().keyed_batches.get_mut(key).and_then(|keyed| keyed.bodies.get_mut(body)) {
            body.refused += 1;
        }
    }

    /// A node acknowledged a body, with ids from `first` on.
    pub(crate) fn record_keyed_acknowledged(&self, key: &str, body: usize, first: Id, node: usize, cuts: u64) {
        let ids: Vec<Id> = {
            let mut known = self.lock();
            let LedgerEntries { entries, keyed_batches, reused_keys, .. } = &mut *known;
            let Some(keyed) = keyed_batches.get_mut(key) else { return };
            let is_other = |(at, other): (usize, &KeyedBody)| at != body && other.acknowledged_by.contains(&node);
            if keyed.bodies.iter().enumerate().any(is_other) && !keyed.nodes_without_key.contains(&node) {
                reused_keys.push(Violation::KeyReused(key.to_owned(), node));
            }
            let durability = keyed.durability;
            let Some(body) = keyed.bodies.get_mut(body) else { return };
            body.acknowledged_by.insert(node);
            let ids: Vec<Id> = (0..body.texts.len() as u32).filter_map(|at| first.checked_add(at)).collect();
            for (id, text) in ids.iter().zip(&body.texts) {
                let entry = || SentRecord { text: text.clone(), durability, fate: SentStatus::Unknown, node: None };
                entries.entry(*id).or_insert_with(entry);
            }
            ids
        };
        self.record_acknowledged(&ids, node, cuts);
    }

    /// A node lost power and so its unsynced keys; those of batches acknowledged as durable are synced.
    fn forget_unsynced_keys(&self, node: usize) {
        self.forget_matching_keys(node, |keyed| {
            keyed.durability == Durability::Fast
                || keyed.bodies.iter().all(|body| !body.acknowledged_by.contains(&node))
        });
    }

    /// A node may have lost all its keys.
    pub(crate) fn forget_keys(&self, node: usize) {
        self.forget_matching_keys(node, |_| true);
    }

    fn forget_matching_keys(&self, node: usize, which: impl Fn(&KeyedBatch) -> bool) {
        for keyed in self.lock().keyed_batches.values_mut().filter(|keyed| keyed.tried_nodes.contains(&node)) {
            let is_forgotten = which(keyed);
            keyed.may_be_duplicated |= is_forgotten && !keyed.has_key_time;
            // The body of a key with a time is not synced.
            if is_forgotten || keyed.has_key_time {
                keyed.nodes_without_key.insert(node);
            }
        }
    }

    /// The clock of a node jumped so far that it forgets keys or ignores their times.
    pub(crate) fn record_skewed_clock(&self, node: usize) {
        let mut known = self.lock();
        known.skewed_clocks.insert(node);
        for keyed in known.keyed_batches.values_mut().filter(|keyed| keyed.tried_nodes.contains(&node)) {
            keyed.may_be_duplicated = true;
            keyed.nodes_without_key.insert(node);
        }
    }

    /// Takes the violations of nodes that accepted two bodies with a key that they must remember.
    pub(crate) fn take_reused_keys(&self) -> Vec<Violation> {
        std::mem::take(&mut self.lock().reused_keys)
    }

    /// The maximum number of keyed records that may be stored under unknown ids.
    pub(crate) fn records_without_known_id_max(&self) -> u64 {
        let known = self.lock();
        let bodies = known.keyed_batches.values().flat_map(|keyed| keyed.bodies.iter().map(move |body| (keyed, body)));
        let unknown = bodies.filter(|(keyed, body)| keyed.may_be_duplicated || body.acknowledged_by.is_empty());
        unknown.map(|(_, body)| (body.texts.len() * (body.tries - body.refused)) as u64).sum()
    }

    fn update(&self, ids: &[Id], change: impl Fn(Id, &mut SentRecord)) {
        let mut known = self.lock();
        for id in ids {
            if let Some(entry) = known.entries.get_mut(id) {
                change(*id, entry);
            }
        }
    }

    /// A node lost unsynced data for the `cuts`th time: its `fast` records are excused, except the replicated ones.
    pub(crate) fn record_power_cut(&self, node: usize, cuts: u64, replicated: &BTreeSet<Id>) {
        self.lock().data_losses.insert(node, cuts);
        self.forget_unsynced_keys(node);
        self.excuse(node, replicated, |durability| durability == Durability::Fast);
    }

    /// A node lost its disk, which counts as a loss of data: records that only it had are excused.
    pub(crate) fn record_disk_loss(&self, node: usize, cuts: u64, replicated: &BTreeSet<Id>) {
        self.lock().data_losses.insert(node, cuts);
        self.lock().destroyed_disks.insert(node, cuts);
        self.forget_keys(node);
        self.excuse(node, replicated, |durability| durability != Durability::Bulk);
        self.remove_damage(node);
    }

    /// A file of a machine is damaged, with these records that no store has.
    pub(crate) fn record_damage(&self, machine: usize, ids: impl Iterator<Item = Id>) {
        let mut known = self.lock();
        let LedgerEntries { entries, damaged, .. } = &mut *known;
        for id in ids {
            damaged.entry(machine).or_default().insert(id);
            if let Some(entry) = entries.get_mut(&id).filter(|entry| entry.fate == SentStatus::Acknowledged) {
                entry.fate = SentStatus::MayBeLost;
            }
        }
    }

    /// A machine is gone with the damaged files that it reported.
    pub(crate) fn remove_damage(&self, machine: usize) {
        let mut known = self.lock();
        let LedgerEntries { entries, damaged, .. } = &mut *known;
        for id in damaged.remove(&machine).unwrap_or_default() {
            if let Some(entry) = entries.get_mut(&id).filter(|entry| entry.fate == SentStatus::MayBeLost) {
                entry.fate = SentStatus::Unknown;
            }
        }
    }

    /// These records are in reported quarantined files: answers need not have them.
    pub(crate) fn record_quarantined(&self, ids: &BTreeSet<Id>) {
        let mut known = self.lock();
        let quarantined = known.entries.iter_mut().filter(|(id, _)| ids.contains(id)).map(|(_, entry)| entry);
        quarantined
            .filter(|entry| entry.fate != SentStatus::MayBeLost)
            .for_each(|entry| entry.fate = SentStatus::Unknown);
    }

    fn excuse(&self, node: usize, replicated: &BTreeSet<Id>, which: impl Fn(Durability) -> bool) {
        for (id, entry) in &mut self.lock().entries {
            let is_acknowledged = entry.fate.is_required() && entry.node == Some(node);
            if is_acknowledged && which(entry.durability) && !replicated.contains(id) {
                entry.fate = SentStatus::Unknown;
            }
        }
    }

    /// The records that every answer must have from now on.
    pub(crate) fn required(&self) -> BTreeSet<Id> {
        let known = self.lock();
        let required = known.entries.iter().filter(|(_, entry)| entry.fate == SentStatus::Acknowledged);
        required.map(|(id, _)| *id).collect()
    }

    /// The records that a complete answer must have, including those perhaps lost by damage, except those acknowledged by
    /// `nodes`.
    pub(crate) fn required_except_from(&self, nodes: &BTreeSet<usize>) -> BTreeSet<Id> {
        let known = self.lock();
        let is_of_other_node = |entry: &SentRecord| entry.node.is_none_or(|node| !nodes.contains(&node));
        let required = known.entries.iter().filter(|(_, entry)| entry.fate.is_required() && is_of_other_node(entry));
        required.map(|(id, _)| *id).collect()
    }

    /// The ids that are not perhaps lost by damage.
    pub(crate) fn without_damaged(&self, mut ids: BTreeSet<Id>) -> BTreeSet<Id> {
        let known = self.lock();
        ids.retain(|id| known.entries.get(id).is_some_and(|entry| entry.fate == SentStatus::Acknowledged));
        ids
    }

    /// The ids of records that match a filter.
    pub(crate) fn matching(&self, mut ids: BTreeSet<Id>, filter: QueryFilter) -> BTreeSet<Id> {
        if filter != QueryFilter::ALL {
            let known = self.lock();
            ids.retain(|id| known.entries.get(id).is_some_and(|entry| filter.matches(&entry.text)));
        }
        ids
    }

    /// The ids that are not excused meanwhile.
    pub(crate) fn still_required<'a>(&self, ids: impl Iterator<Item = &'a Id>) -> BTreeSet<Id> {
        let known = self.lock();
        let is_required = |id: &&Id| known.entries.get(id).is_some_and(|entry| entry.fate.is_required());
        ids.filter(is_required).copied().collect()
    }

    /// The ids that may be found.
    pub(crate) fn allowed(&self) -> BTreeSet<Id> {
        let known = self.lock();
        known.entries.iter().filter(|(_, entry)| entry.fate != SentStatus::Refused).map(|(id, _)| *id).collect()
    }

    /// Compares found records, sorted by id, with the ledger. `required` is from before the query.
    pub(crate) fn check(&self, required: &BTreeSet<Id>, found: &[(Id, Arc<str>)]) -> Vec<Violation> {
        let known = self.lock();
        let mut violations = Vec::new();
        let is_found = |id: &Id| found.binary_search_by_key(id, |(id, _)| *id).is_ok();
        let mut last = None;
        let mut keyed = BTreeSet::new();
        for (id, text) in found {
            if id.producer().is_keyed() {
                if last.replace(*id) == Some(*id) {
                    violations.push(Violation::Duplicated(*id));
                    continue;
                }
                violations.extend(known.check_keyed(*id, text, &mut keyed));
                continue;
            }
            // All texts differ, so a text found twice was stored under two ids.
            if last.replace(*id) == Some(*id) || known.resent.get(id).is_some_and(is_found) {
                violations.push(Violation::Duplicated(*id));
            }
            match known.entries.get(id) {
                Some(entry) if *entry.text != **text => violations.push(Violation::NeverSent(*id)),
                None => violations.push(Violation::NeverSent(*id)),
                Some(entry) if entry.fate == SentStatus::Refused => violations.push(Violation::RefusedButFound(*id)),
                Some(_) => {}
            }
        }
        // Records may have been excused meanwhile.
        let is_required = |id: &&Id| known.entries.get(id).is_some_and(|entry| entry.fate.is_required());
        let missing = required.iter().filter(|id| !is_found(id));
        violations.extend(missing.filter(is_required).map(|id| Violation::Lost(*id)));
        violations
    }
}

impl LedgerEntries {
    /// The violation of a record of a keyed batch. `seen` has the earlier records of the same answer.
    fn check_keyed<'a>(&self, id: Id, text: &'a str, seen: &mut BTreeSet<&'a str>) -> Option<Violation> {
        let Some(KeyedPosition { key, body, at }) = self.keyed_texts.get(text) else {
            return Some(Violation::NeverSent(id));
        };
        let keyed = self.keyed_batches.get(key)?;
        if id.sequence() as usize != *at {
            return Some(Violation::NeverSent(id));
        }
        if keyed.bodies.get(*body).is_some_and(|body| body.tries == body.refused) {
            return Some(Violation::RefusedButFound(id));
        }
        (!seen.insert(text) && !keyed.may_be_duplicated).then_some(Violation::Duplicated(id))
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Millis, Producer};

    use super::*;

    fn id(number: u32) -> Id {
        Id::new(Millis(1), Producer::new(1), number)
    }

    #[test]
    fn violations_are_reported() {
        let ledger = RecordLedger::default();
        for number in 0..6 {
            ledger.record_sent(id(number), format!("text {number}"), Durability::Fast);
        }
        ledger.record_try(&[id(0), id(1), id(2), id(3)]);
        ledger.record_acknowledged(&[id(0), id(1)], 7, 0);
        ledger.record_refused(&[id(3)]);
        let found = |numbers: &[u32]| -> Vec<(Id, Arc<str>)> {
            numbers.iter().map(|number| (id(*number), format!("text {number}").into())).collect()
        };
        let check = |numbers: &[u32], want: &[Violation]| {
            assert_eq!(ledger.check(&ledger.required(), &found(numbers)), want);
        };
        check(&[0, 1], &[]);
        check(&[0, 1, 2], &[]);
        check(&[0, 2], &[Violation::Lost(id(1))]);
        check(&[0, 1, 2, 2], &[Violation::Duplicated(id(2))]);
        check(&[0, 1, 3], &[Violation::RefusedButFound(id(3))]);
        check(&[0, 1, 5], &[Violation::RefusedButFound(id(5))]);
        check(&[0, 1, 9], &[Violation::NeverSent(id(9))]);
        assert_eq!(ledger.check(&BTreeSet::new(), &[(id(0), "other".into())]), [Violation::NeverSent(id(0))]);
        ledger.record_sent(id(8), "text 0".to_owned(), Durability::Fast);
        ledger.record_try(&[id(8)]);
        let twice = [(id(0), "text 0".into()), (id(8), "text 0".into())];
        assert_eq!(ledger.check(&BTreeSet::new(), &twice[..1]), []);
        assert_eq!(ledger.check(&BTreeSet::new(), &twice), [Violation::Duplicated(id(8))]);
        ledger.record_power_cut(7, 1, &BTreeSet::from([id(0)]));
        check(&[0], &[]);
        check(&[1], &[Violation::Lost(id(0))]);
        // An acknowledgement that was sent before the power cut and arrived after it does not count.
        ledger.record_acknowledged(&[id(2)], 7, 0);
        check(&[0], &[]);
        ledger.record_acknowledged(&[id(2)], 7, 1);
        check(&[0], &[Violation::Lost(id(2))]);
        ledger.record_disk_loss(7, 2, &BTreeSet::from([id(0)]));
        check(&[0], &[]);
        ledger.record_quarantined(&BTreeSet::from([id(0)]));
        check(&[], &[]);
    }

    #[test]
    fn damaged_records_are_required_in_complete_answers_only() {
        let ledger = RecordLedger::default();
        for number in 0..2 {
            ledger.record_sent(id(number), format!("text {number}"), Durability::Durable);
            ledger.record_try(&[id(number)]);
        }
        ledger.record_acknowledged(&[id(0), id(1)], 7, 0);
        ledger.record_damage(7, [id(0)].into_iter());
        let complete = ledger.required_except_from(&BTreeSet::new());
        assert_eq!(ledger.check(&complete, &[(id(1), "text 1".into())]), [Violation::Lost(id(0))]);
        assert_eq!(ledger.check(&ledger.without_damaged(complete.clone()), &[]), [Violation::Lost(id(1))]);
        assert_eq!(ledger.required(), BTreeSet::from([id(1)]));
        ledger.record_quarantined(&BTreeSet::from([id(0)]));
        assert_eq!(ledger.still_required(complete.iter()), complete, "the damage is reported while the file exists");
        ledger.remove_damage(7);
        assert_eq!(ledger.still_required(complete.iter()), BTreeSet::from([id(1)]));
    }

    #[test]
    fn a_keyed_batch_is_found_once_unless_its_key_may_be_forgotten() {
        let ledger = RecordLedger::default();
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let bodies = vec![texts(&["one", "two"]), texts(&["other"])];
        ledger.record_keyed_batch("a", bodies, Durability::Durable, false);
        ledger.record_keyed_try("a", 0, 3);
        assert_eq!(ledger.records_without_known_id_max(), 2);
        let at = |ms, sequence| Id::new(Millis(ms), Producer::from_key(&[ms as u8]), sequence);
        let check = |found: &[(Id, &str)], want: &[Violation]| {
            let found: Vec<(Id, Arc<str>)> = found.iter().map(|(id, text)| (*id, (*text).into())).collect();
            assert_eq!(ledger.check(&ledger.required(), &found), want);
        };
        check(&[], &[]);
        check(&[(at(7, 0), "one"), (at(7, 1), "two")], &[]);
        check(&[(at(7, 0), "two")], &[Violation::NeverSent(at(7, 0))]);
        check(&[(at(7, 2), "three")], &[Violation::NeverSent(at(7, 2))]);
        ledger.record_keyed_acknowledged("a", 0, at(7, 0), 3, 0);
        assert_eq!(ledger.records_without_known_id_max(), 0);
        check(&[(at(7, 0), "one")], &[Violation::Lost(at(7, 1))]);
        let twice = [(at(7, 0), "one"), (at(7, 1), "two"), (at(9, 0), "one")];
        check(&twice, &[Violation::Duplicated(at(9, 0))]);
        // The other body was refused.
        let beside = [(at(7, 0), "one"), (at(7, 1), "two"), (at(8, 0), "other")];
        check(&beside, &[Violation::RefusedButFound(at(8, 0))]);
        ledger.record_keyed_try("a", 1, 3);
        check(&beside, &[]);
        ledger.record_keyed_refused("a", 1);
        check(&beside, &[Violation::RefusedButFound(at(8, 0))]);
        ledger.forget_keys(2);
        // The key of a batch acknowledged as durable is synced.
        ledger.record_power_cut(3, 1, &BTreeSet::new());
        check(&twice, &[Violation::Duplicated(at(9, 0))]);
        ledger.record_keyed_try("a", 1, 3);
        ledger.record_keyed_acknowledged("a", 1, at(8, 0), 3, 1);
        assert_eq!(ledger.take_reused_keys(), [Violation::KeyReused("a".to_owned(), 3)]);
        ledger.forget_keys(3);
        ledger.record_keyed_acknowledged("a", 1, at(8, 0), 3, 1);
        assert_eq!(ledger.take_reused_keys(), []);
        let all = [twice[0], twice[1], beside[2], twice[2]];
        check(&all, &[]);
        check(&all[2..], &[Violation::Lost(at(7, 0)), Violation::Lost(at(7, 1))]);
    }
}
