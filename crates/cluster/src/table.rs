//! The member table, as a pure state machine: time and liveness are arguments.
//!
//! Facts from any node are merged; the newest win, by incarnation and version. Foca alone decides whether a member is
//! live. Reports of other nodes about that are used only for members that foca does not list.
//!
//! ```text
//!                 foca has it                   foca lost it
//!    ┌────────┐ ─────────────► ┌───────────┐ ──────────────► ┌──────┐ ── forget ──► Forgotten (a tombstone)
//!    │Unconf. │                │Live       │ ◄────────────── │Down  │
//!    └────────┘ ─────────────► └───────────┘  foca has it    └──────┘
//!         │  not live within grace   │ its facts say that it left
//!         └──────────► Down          └──────────► Left ── a later incarnation ──► Unconfirmed
//! ```
//! Down, Left and Forgotten members are removed after `remember`. The time is the same for all three and on all nodes, so that
//! no node reintroduces a member that others have removed. Ages are measured by monotonic clocks, and the highest reported
//! age is used.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::to_millis;
use bucksaw_record::{Id, Millis};

use crate::entry::{Departure, DepartureReason, Entry, LiveIdentity};
use crate::identity::{Identity, base_incarnation};
use crate::{Facts, Member, MemberState};

/// Maximum number of members, which bounds the memory that unauthenticated packets can use.
pub(crate) const MEMBERS_MAX: usize = 1_000;

/// A reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockReading {
    pub(crate) uptime: Duration,
    pub(crate) wall: Millis,
}

/// The times of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableTimeouts {
    /// How long departed members are kept.
    pub(crate) remember: Duration,
    /// How long a member that only others have reported counts as live.
    pub(crate) grace: Duration,
    /// How long two processes must share an id before they are duplicates and not one node that moved.
    pub(crate) duplicate_after: Duration,
}

/// A member that foca reports as live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveMember {
    pub(crate) identity: Identity,
    pub(crate) suspect: bool,
}

/// All members but this node.
#[derive(Debug)]
pub(crate) struct MemberTable {
    me: Id,
    times: TableTimeouts,
    members: BTreeMap<Id, KnownMember>,
    /// The states at the last update.
    published_states: BTreeMap<Id, (MemberState, SocketAddr)>,
    /// Node ids shared by live processes, and since when.
    duplicates: BTreeMap<Id, (Duration, DuplicateId)>,
    /// Processes that foca reports as live, but that a probe has found stopped.
    absent: BTreeSet<Identity>,
    /// Live processes that share a node id with another.
    pub(crate) claimants: BTreeSet<Identity>,
    /// The highest reported incarnation of this node's id.
    pub(crate) highest_own_incarnation: Id,
}

#[derive(Debug)]
struct KnownMember {
    facts: Arc<Facts>,
    presence: Presence,
    /// The uptime since which it has this presence; `age_at_start` is added to its age.
    since: Duration,
    age_at_start: Duration,
    since_wall: Millis,
    /// Its live process, by foca.
    live: Option<Identity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Unconfirmed,
    Live { suspect: bool },
    Departed(DepartureReason),
}

/// The addresses of two live processes with one node id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DuplicateId {
    /// The process that was started earlier, which is ignored.
    pub(crate) older: SocketAddr,
    pub(crate) newer: SocketAddr,
}

/// Why a node cannot be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForgetError {
    /// No known node has the id.
    #[error("no node has this id")]
    Unknown,
    /// The node is live, and would return at once.
    #[error("the node is alive: stop it first")]
    Live,
    /// This node has left.
    #[error("this node has left the cluster")]
    Gone,
}

impl DuplicateId {
    /// The address of the other process.
    pub(crate) fn other_address(self, address: SocketAddr) -> SocketAddr {
        if self.older == address { self.newer } else { self.older }
    }
}

/// The effect of merging an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeOutcome {
    /// Nothing new.
    Unchanged,
    /// Newer facts, with the same presence.
    Facts,
    /// A member is new, has restarted or has departed.
    Presence,
    /// The table is full.
    Full,
}

/// A member whose state has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PresenceChange {
    pub(crate) node: Id,
    pub(crate) address: SocketAddr,
    /// `None` if it was removed.
    pub(crate) state: Option<MemberState>,
}

impl KnownMember {
    fn age(&self, now: ClockReading) -> Duration {
        self.age_at_start.saturating_add(now.uptime.saturating_sub(self.since))
    }

    fn set_presence(&mut self, presence: Presence, before: Duration, now: ClockReading) {
        let age = to_millis(before);
        (self.presence, self.since, self.age_at_start) = (presence, now.uptime, before);
        self.since_wall = Millis(now.wall.0.saturating_sub(age));
    }

    fn state(&self) -> Option<MemberState> {
        match self.presence {
            Presence::Live { suspect: false } => Some(MemberState::Alive),
            Presence::Live { suspect: true } | Presence::Unconfirmed => Some(MemberState::Suspect),
            Presence::Departed(DepartureReason::Down) => Some(MemberState::Down),
            Presence::Departed(DepartureReason::Left) => Some(MemberState::Left),
            Presence::Departed(DepartureReason::Forgotten) => None,
        }
    }
}

impl MemberTable {
    pub(crate) fn new(me: Id, times: TableTimeouts) -> Self {
        Self {
            me,
            times,
            members: BTreeMap::new(),
            published_states: BTreeMap::new(),
            duplicates: BTreeMap::new(),
            absent: BTreeSet::new(),
            claimants: BTreeSet::new(),
            highest_own_incarnation: Id::MIN,
        }
    }

    /// Merges an entry of another node.
    pub(crate) fn merge(&mut self, entry: Entry, now: ClockReading) -> MergeOutcome {
        if entry.facts.node == self.me {
            self.highest_own_incarnation = self.highest_own_incarnation.max(entry.highest_incarnation());
            return MergeOutcome::Unchanged;
        }
        let departure =
            entry.departure.or(entry.facts.left.then_some(Departure { reason: DepartureReason::Left, elapsed_ms: 0 }));
        let known = self.members.get(&entry.facts.node).map(|node| node.facts.incarnation_and_version());
        if known.is_none_or(|(incarnation, _)| entry.facts.incarnation > incarnation) {
            return self.insert_incarnation(entry.facts, departure, now);
        }
        let Some(node) = self.members.get_mut(&entry.facts.node) else { return MergeOutcome::Unchanged };
        if entry.facts.incarnation < node.facts.incarnation {
            return MergeOutcome::Unchanged;
        }
        let mut outcome = MergeOutcome::Unchanged;
        // Of equal versions, the copy of the newer protocol is kept: an older node drops fields when it forwards facts.
        let order = |facts: &Facts| (facts.version, facts.protocol_minor);
        if order(&entry.facts) > order(&node.facts) {
            outcome = if entry.facts.left == node.facts.left { MergeOutcome::Facts } else { MergeOutcome::Presence };
            node.facts = Arc::new(entry.facts);
        }
        if let Some(departure) = departure {
            let worse = match node.presence {
                Presence::Unconfirmed => true,
                // Its own facts state that it left; otherwise foca decides.
                Presence::Live { .. } => departure.reason == DepartureReason::Left && node.facts.left,
                Presence::Departed(reason) => departure.reason > reason,
            };
            if worse {
                node.set_presence(Presence::Departed(departure.reason), departure.elapsed(), now);
                outcome = MergeOutcome::Presence;
            } else if node.presence == Presence::Departed(departure.reason) && departure.elapsed() > node.age(now) {
                node.set_presence(node.presence, departure.elapsed(), now);
            }
        }
        outcome
    }

    /// Inserts a new member, or a new incarnation of a known one.
    fn insert_incarnation(&mut self, facts: Facts, departure: Option<Departure>, now: ClockReading) -> MergeOutcome {
        if departure.is_some_and(|departure| departure.elapsed() >= self.times.remember) {
            return MergeOutcome::Unchanged;
        }
        if !self.members.contains_key(&facts.node) && !self.make_room(departure.is_some(), now) {
            return MergeOutcome::Full;
        }
        let presence = departure.map_or(Presence::Unconfirmed, |departure| Presence::Departed(departure.reason));
        let live = self.members.get(&facts.node).and_then(|node| node.live);
        let id = facts.node;
        let mut node = KnownMember {
            facts: Arc::new(facts),
            presence,
            since: now.uptime,
            age_at_start: Duration::ZERO,
            since_wall: now.wall,
            live,
        };
        node.set_presence(presence, departure.map_or(Duration::ZERO, |departure| departure.elapsed()), now);
        self.members.insert(id, node);
        MergeOutcome::Presence
    }

    /// Makes room for one more member; the oldest tombstone is removed for one that is not departed.
    fn make_room(&mut self, is_departed: bool, now: ClockReading) -> bool {
        if self.members.len() < MEMBERS_MAX {
            return true;
        }
        let tombstones = self.members.iter().filter(|(_, node)| {
            matches!(node.presence, Presence::Departed(DepartureReason::Left | DepartureReason::Forgotten))
        });
        let oldest = tombstones.max_by_key(|(_, node)| node.age(now)).map(|(id, _)| *id);
        !is_departed && oldest.is_some_and(|oldest| self.members.remove(&oldest).is_some())
    }

    /// Applies the live members by foca and the time; returns the changes. `seen` includes this node.
    pub(crate) fn update_liveness(&mut self, seen: &[LiveMember], now: ClockReading) -> Vec<PresenceChange> {
        self.absent.retain(|gone| seen.iter().any(|seen| seen.identity == *gone));
        let seen: Vec<LiveMember> = seen.iter().filter(|seen| !self.absent.contains(&seen.identity)).copied().collect();
        let by_node = self.newest_per_id(&seen, now);
        for (id, node) in &mut self.members {
            node.apply_liveness(by_node.get(id), self.times.grace, now);
        }
        let remember = self.times.remember;
        self.members.retain(|_, node| !matches!(node.presence, Presence::Departed(_)) || node.age(now) < remember);
        let states = self.members.iter().filter_map(|(id, node)| Some((*id, (node.state()?, node.facts.address))));
        let before = std::mem::replace(&mut self.published_states, states.collect());
        let gone = before.iter().filter(|(id, _)| !self.published_states.contains_key(id));
        let gone = gone.map(|(id, (_, address))| PresenceChange { node: *id, address: *address, state: None });
        let changed =
            self.published_states.iter().filter(|(id, (state, _))| before.get(id).is_none_or(|(was, _)| was != state));
        let changed =
            changed.map(|(id, (state, address))| PresenceChange { node: *id, address: *address, state: Some(*state) });
        gone.chain(changed).collect()
    }

    /// The newest live process of each id; also updates the duplicates.
    fn newest_per_id(&mut self, seen: &[LiveMember], now: ClockReading) -> BTreeMap<Id, LiveMember> {
        let mut latest: BTreeMap<Id, LiveMember> = BTreeMap::new();
        let mut duplicate_ids = BTreeMap::new();
        for seen in seen {
            let id = seen.identity.node;
            if let Some(other) = latest.get(&id).copied() {
                let (older, newer) = if other.identity.incarnation < seen.identity.incarnation {
                    (other, *seen)
                } else {
                    (*seen, other)
                };
                latest.insert(id, newer);
                duplicate_ids.insert(id, DuplicateId { older: older.identity.address, newer: newer.identity.address });
            } else {
                latest.insert(id, *seen);
            }
        }
        // The later process may be unknown to foca, or stopped, while the earlier one is live.
        for (id, node) in &self.members {
            let earlier = latest.get(id).filter(|seen| seen.identity.base_incarnation() < node.facts.incarnation);
            if let Some(older) = earlier.map(|seen| seen.identity.address).filter(|older| *older != node.facts.address)
            {
                duplicate_ids.entry(*id).or_insert(DuplicateId { older, newer: node.facts.address });
            }
        }
        let claims = |seen: &&LiveMember| duplicate_ids.contains_key(&seen.identity.node);
        self.claimants = seen.iter().filter(claims).map(|seen| seen.identity).collect();
        let since = |id: &Id| self.duplicates.get(id).map_or(now.uptime, |(since, _)| *since);
        self.duplicates =
            duplicate_ids.into_iter().map(|(id, duplicate_ids)| (id, (since(&id), duplicate_ids))).collect();
        latest
    }

    /// Live processes whose own facts are missing.
    pub(crate) fn missing_facts<'a>(&'a self, seen: &'a [LiveMember]) -> impl Iterator<Item = Identity> + 'a {
        seen.iter().map(|seen| seen.identity).filter(|identity| {
            let of = self.members.get(&identity.node);
            identity.node != self.me
                && of.is_none_or(|node| {
                    let (incarnation, version) = node.facts.incarnation_and_version();
                    incarnation < identity.base_incarnation()
                        || (incarnation == identity.base_incarnation() && version == 0)
                })
        })
    }

    /// Members that are not live and may return, with their addresses.
    pub(crate) fn unreachable(&self) -> Vec<(Id, SocketAddr)> {
        let missing = self.members.iter().filter(|(_, node)| {
            matches!(node.presence, Presence::Unconfirmed | Presence::Departed(DepartureReason::Down))
        });
        missing.map(|(id, node)| (*id, node.facts.address)).collect()
    }

    /// Marks a departed member as forgotten.
    ///
    /// # Errors
    /// As [`crate::Cluster::forget`].
    pub(crate) fn forget(&mut self, id: Id, now: ClockReading) -> Result<(), ForgetError> {
        let node = if id == self.me { return Err(ForgetError::Live) } else { self.members.get_mut(&id) };
        match node {
            Some(node)
                if matches!(node.presence, Presence::Departed(DepartureReason::Down | DepartureReason::Left)) =>
            {
                node.set_presence(Presence::Departed(DepartureReason::Forgotten), Duration::ZERO, now);
                Ok(())
            }
            None | Some(KnownMember { presence: Presence::Departed(DepartureReason::Forgotten), .. }) => {
                Err(ForgetError::Unknown)
            }
            Some(_) => Err(ForgetError::Live),
        }
    }

    /// The entry of one member.
    pub(crate) fn entry(&self, id: Id, now: ClockReading) -> Option<Entry> {
        self.members.get(&id).map(|node| node.entry(now))
    }

    /// The entries of all members.
    pub(crate) fn entries(&self, now: ClockReading) -> Vec<Entry> {
        self.members.values().map(|node| node.entry(now)).collect()
    }

    /// Ids that live processes have shared for longer than a move takes.
    pub(crate) fn duplicates(&self, now: ClockReading) -> BTreeMap<Id, DuplicateId> {
        let lasting = |since: Duration| now.uptime.saturating_sub(since) >= self.times.duplicate_after;
        self.duplicates
            .iter()
            .filter(|(_, (since, _))| lasting(*since))
            .map(|(id, (_, duplicate_ids))| (*id, *duplicate_ids))
            .collect()
    }

    /// Whether another live process has this node's id, however recently.
    pub(crate) fn is_own_id_duplicated(&self) -> bool {
        self.duplicates.contains_key(&self.me)
    }

    /// Marks a process as stopped, whatever foca reports. Effective at the next update.
    pub(crate) fn mark_absent(&mut self, identity: Identity) {
        self.absent.insert(identity);
    }

    /// The live processes that share an id, however recently.
    pub(crate) fn duplicate(&self, id: Id) -> Option<DuplicateId> {
        self.duplicates.get(&id).map(|(_, duplicate_ids)| *duplicate_ids)
    }

    /// All members but this node, for publication.
    pub(crate) fn members(&self, now: ClockReading) -> Vec<Member> {
        let duplicate_ids = self.duplicates(now);
        let members = self.members.iter().filter_map(|(id, node)| {
            let duplicate_at = duplicate_ids.get(id).map(|duplicate_ids| duplicate_ids.older);
            Some(Member {
                facts: Arc::clone(&node.facts),
                state: node.state()?,
                since: node.since_wall,
                duplicate_at,
                duplicate_suspected_at: self
                    .duplicate(*id)
                    .map(|duplicate_ids| duplicate_ids.other_address(node.facts.address)),
                version_skew: None,
            })
        });
        members.collect()
    }
}

impl KnownMember {
    /// Applies the live process that foca reports for the member.
    fn apply_liveness(&mut self, seen: Option<&LiveMember>, grace: Duration, now: ClockReading) {
        self.live = None;
        if let Some(seen) = seen.filter(|seen| seen.identity.base_incarnation() >= self.facts.incarnation) {
            if seen.identity.base_incarnation() > self.facts.incarnation {
                // It has restarted, and its new facts have not arrived.
                let facts = Arc::make_mut(&mut self.facts);
                facts.incarnation = base_incarnation(seen.identity.incarnation);
                facts.address = seen.identity.address;
                facts.version = 0;
                (facts.left, facts.draining) = (false, false);
            }
            self.live = Some(seen.identity);
            let presence = Presence::Live { suspect: seen.suspect };
            if self.facts.left {
                self.change_presence(Presence::Departed(DepartureReason::Left), now);
            } else {
                self.change_presence(presence, now);
            }
            return;
        }
        match self.presence {
            Presence::Live { .. } if self.facts.left => {
                self.change_presence(Presence::Departed(DepartureReason::Left), now);
            }
            Presence::Live { .. } => self.change_presence(Presence::Departed(DepartureReason::Down), now),
            Presence::Unconfirmed if self.age(now) >= grace => {
                self.change_presence(Presence::Departed(DepartureReason::Down), now);
            }
            Presence::Unconfirmed | Presence::Departed(_) => {}
        }
    }

    fn change_presence(&mut self, presence: Presence, now: ClockReading) {
        if self.presence != presence {
            self.set_presence(presence, Duration::ZERO, now);
        }
    }

    fn entry(&self, now: ClockReading) -> Entry {
        let departure = match self.presence {
            Presence::Departed(reason) => Some(Departure::new(reason, self.age(now))),
            Presence::Unconfirmed | Presence::Live { .. } => None,
        };
        let live = self.live.filter(|_| departure.is_none());
        let live = live.map(|live| LiveIdentity { incarnation: live.incarnation, address: live.address });
        Entry { facts: Facts::clone(&self.facts), departure, live, bootstrapping: false }
    }
}

#[cfg(test)]
mod tests;
