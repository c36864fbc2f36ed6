//! All nodes that are known, and what becomes of what is heard of them. Pure: time and who is alive come in as arguments.
//!
//! Facts come from anywhere and the newest win, by incarnation and version. Whether a node is there says foca alone; what others
//! say about that counts only for nodes that foca does not know.
//!
//! ```text
//!                 foca has it                   foca lost it
//!    ┌────────┐ ─────────────► ┌───────────┐ ──────────────► ┌──────┐ ── forget ──► Forgotten (a tombstone)
//!    │Unheard │                │Live       │ ◄────────────── │Down  │
//!    └────────┘ ─────────────► └───────────┘  foca has it    └──────┘
//!         │  nothing, for the grace  │ its facts say that it left
//!         └──────────► Down          └──────────► Left ── a later incarnation ──► Unheard
//! ```
//! Down, Left and Forgotten end when they are older than `remember`. All three last equally long, so that no node holds
//! one that the others have already dropped and brings it back. How long ago something was is measured by the clocks that
//! never go back, and the longest that anybody saw is what counts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_record::{Id, Millis};

use crate::entry::{Departure, DepartureReason, Entry, LiveIdentity};
use crate::identity::{Identity, base_incarnation};
use crate::{Facts, Member, MemberState};

/// More nodes are not known: a bound for what strangers can make a node hold.
pub(crate) const MEMBERS_MAX: usize = 1_000;

/// The moment, by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockReading {
    pub(crate) uptime: Duration,
    pub(crate) wall: Millis,
}

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableTimeouts {
    /// How long a node that is gone is remembered.
    pub(crate) remember: Duration,
    /// How long a node that is only known from hearsay is taken for alive.
    pub(crate) grace: Duration,
    /// How long two nodes have to claim one id before it is not just a node that moved.
    pub(crate) duplicate_after: Duration,
}

/// A node that foca takes for alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveMember {
    pub(crate) identity: Identity,
    pub(crate) suspect: bool,
}

/// All nodes but this one.
#[derive(Debug)]
pub(crate) struct MemberTable {
    me: Id,
    times: TableTimeouts,
    members: BTreeMap<Id, KnownMember>,
    /// Their states when they were last settled.
    published_states: BTreeMap<Id, (MemberState, SocketAddr)>,
    /// Ids that several live nodes claim, and since when.
    duplicates: BTreeMap<Id, (Duration, DuplicateId)>,
    /// Processes that foca takes for alive, and that a probe has found not to be there.
    absent: BTreeSet<Identity>,
    /// Processes of which others have the same id.
    claimants: BTreeSet<Identity>,
    /// The highest incarnation of this node's id that anybody told of.
    highest_own_incarnation: Id,
}

#[derive(Debug)]
struct KnownMember {
    facts: Arc<Facts>,
    presence: Presence,
    /// Since when, by the clock that never goes back; what was before this process began is in `before`.
    since: Duration,
    age_at_start: Duration,
    since_wall: Millis,
    /// Who it is, when foca has it.
    live: Option<Identity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Unconfirmed,
    Live { suspect: bool },
    Departed(DepartureReason),
}

/// Where two live nodes with one id are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DuplicateId {
    /// The one that was started earlier, and is passed over.
    pub(crate) older: SocketAddr,
    pub(crate) newer: SocketAddr,
}

/// Why a node is not forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForgetError {
    /// There is none.
    #[error("no node has this id")]
    Unknown,
    /// It would be back at once.
    #[error("the node is alive: stop it first")]
    Live,
    /// This node has left.
    #[error("this node has left the cluster")]
    Gone,
}

impl DuplicateId {
    /// Where the other one is.
    pub(crate) fn other_address(self, address: SocketAddr) -> SocketAddr {
        if self.older == address { self.newer } else { self.older }
    }
}

/// What became of what was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergeOutcome {
    /// It was known.
    Unchanged,
    /// Newer facts of a node whose standing is the same.
    Facts,
    /// A node is new, began again, or is gone.
    Standing,
    /// There is no room for another node.
    Full,
}

/// A node whose standing changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PresenceChange {
    pub(crate) node: Id,
    pub(crate) address: SocketAddr,
    /// None when it is known no more.
    pub(crate) state: Option<MemberState>,
}

impl KnownMember {
    fn age(&self, now: ClockReading) -> Duration {
        self.age_at_start.saturating_add(now.uptime.saturating_sub(self.since))
    }

    fn set_presence(&mut self, standing: Presence, before: Duration, now: ClockReading) {
        let age = u64::try_from(before.as_millis()).unwrap_or(u64::MAX);
        (self.presence, self.since, self.age_at_start) = (standing, now.uptime, before);
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

    /// The highest incarnation in which anybody has seen a node with this one's id.
    pub(crate) fn highest_own_incarnation(&self) -> Id {
        self.highest_own_incarnation
    }

    /// Takes in what somebody tells of a node.
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
        let mut heard = MergeOutcome::Unchanged;
        // Of the same age are those to be taken that nobody passed on who left out what it does not know.
        let telling = |facts: &Facts| (facts.version, facts.protocol_minor);
        if telling(&entry.facts) > telling(&node.facts) {
            heard = if entry.facts.left == node.facts.left { MergeOutcome::Facts } else { MergeOutcome::Standing };
            node.facts = Arc::new(entry.facts);
        }
        if let Some(departure) = departure {
            let worse = match node.presence {
                Presence::Unconfirmed => true,
                // That it left, itself has said; else foca knows better.
                Presence::Live { .. } => departure.reason == DepartureReason::Left && node.facts.left,
                Presence::Departed(reason) => departure.reason > reason,
            };
            if worse {
                node.set_presence(Presence::Departed(departure.reason), departure.elapsed(), now);
                heard = MergeOutcome::Standing;
            } else if node.presence == Presence::Departed(departure.reason) && departure.elapsed() > node.age(now) {
                node.set_presence(node.presence, departure.elapsed(), now);
            }
        }
        heard
    }

    /// A node that was not known, or that began again.
    fn insert_incarnation(&mut self, facts: Facts, departure: Option<Departure>, now: ClockReading) -> MergeOutcome {
        if departure.is_some_and(|departure| departure.elapsed() >= self.times.remember) {
            return MergeOutcome::Unchanged;
        }
        if !self.members.contains_key(&facts.node) && !self.make_room(departure.is_some(), now) {
            return MergeOutcome::Full;
        }
        let standing = departure.map_or(Presence::Unconfirmed, |departure| Presence::Departed(departure.reason));
        let live = self.members.get(&facts.node).and_then(|node| node.live);
        let id = facts.node;
        let mut node = KnownMember {
            facts: Arc::new(facts),
            presence: standing,
            since: now.uptime,
            age_at_start: Duration::ZERO,
            since_wall: now.wall,
            live,
        };
        node.set_presence(standing, departure.map_or(Duration::ZERO, |departure| departure.elapsed()), now);
        self.members.insert(id, node);
        MergeOutcome::Standing
    }

    /// Whether there is room for one more; tombstones make way for who is not gone.
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

    /// Takes in who is alive by foca, and lets time pass. `seen` is this node, too.
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

    /// The latest of those who claim an id; and remembers which ids several claim.
    fn newest_per_id(&mut self, seen: &[LiveMember], now: ClockReading) -> BTreeMap<Id, LiveMember> {
        let mut latest: BTreeMap<Id, LiveMember> = BTreeMap::new();
        let mut twins = BTreeMap::new();
        for seen in seen {
            let id = seen.identity.node;
            if let Some(other) = latest.get(&id).copied() {
                let (older, newer) = if other.identity.incarnation < seen.identity.incarnation {
                    (other, *seen)
                } else {
                    (*seen, other)
                };
                latest.insert(id, newer);
                twins.insert(id, DuplicateId { older: older.identity.address, newer: newer.identity.address });
            } else {
                latest.insert(id, *seen);
            }
        }
        // Foca has not heard of the one that was started later, or knows that it went, and the earlier one is alive.
        for (id, node) in &self.members {
            let earlier = latest.get(id).filter(|seen| seen.identity.base_incarnation() < node.facts.incarnation);
            if let Some(older) = earlier.map(|seen| seen.identity.address).filter(|older| *older != node.facts.address)
            {
                twins.entry(*id).or_insert(DuplicateId { older, newer: node.facts.address });
            }
        }
        let claims = |seen: &&LiveMember| twins.contains_key(&seen.identity.node);
        self.claimants = seen.iter().filter(claims).map(|seen| seen.identity).collect();
        let since = |id: &Id| self.duplicates.get(id).map_or(now.uptime, |(since, _)| *since);
        self.duplicates = twins.into_iter().map(|(id, twins)| (id, (since(&id), twins))).collect();
        latest
    }

    /// Nodes that foca takes for alive and whose own facts have not come.
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

    /// Nodes that are not there and may come back, and where they were.
    pub(crate) fn unreachable(&self) -> Vec<(Id, SocketAddr)> {
        let missing = self.members.iter().filter(|(_, node)| {
            matches!(node.presence, Presence::Unconfirmed | Presence::Departed(DepartureReason::Down))
        });
        missing.map(|(id, node)| (*id, node.facts.address)).collect()
    }

    /// Marks a node that is gone as one that will not come back.
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

    /// One node, to be told of.
    pub(crate) fn entry(&self, id: Id, now: ClockReading) -> Option<Entry> {
        self.members.get(&id).map(|node| node.entry(now))
    }

    /// All nodes, to be told of.
    pub(crate) fn entries(&self, now: ClockReading) -> Vec<Entry> {
        self.members.values().map(|node| node.entry(now)).collect()
    }

    /// Ids that several live nodes have claimed for longer than a move takes.
    pub(crate) fn duplicates(&self, now: ClockReading) -> BTreeMap<Id, DuplicateId> {
        let lasting = |since: Duration| now.uptime.saturating_sub(since) >= self.times.duplicate_after;
        self.duplicates.iter().filter(|(_, (since, _))| lasting(*since)).map(|(id, (_, twins))| (*id, *twins)).collect()
    }

    /// Whether another live node claims this one's id, even if just now.
    pub(crate) fn is_own_id_duplicated(&self) -> bool {
        self.duplicates.contains_key(&self.me)
    }

    /// Processes whose id another live one has, too.
    pub(crate) fn claimants(&self) -> &BTreeSet<Identity> {
        &self.claimants
    }

    /// Takes note that a process is not there, whatever foca says. It counts when the table is settled next.
    pub(crate) fn mark_absent(&mut self, identity: Identity) {
        self.absent.insert(identity);
    }

    /// Where the live nodes are that claim an id, even if just now, when there are two.
    pub(crate) fn duplicate(&self, id: Id) -> Option<DuplicateId> {
        self.duplicates.get(&id).map(|(_, twins)| *twins)
    }

    /// All nodes but this one, as they are shown.
    pub(crate) fn members(&self, now: ClockReading) -> Vec<Member> {
        let twins = self.duplicates(now);
        let members = self.members.iter().filter_map(|(id, node)| {
            let twin = twins.get(id).map(|twins| twins.older);
            Some(Member {
                facts: Arc::clone(&node.facts),
                state: node.state()?,
                since: node.since_wall,
                duplicate_at: twin,
                duplicate_suspected_at: self.duplicate(*id).map(|twins| twins.other_address(node.facts.address)),
                version_skew: None,
            })
        });
        members.collect()
    }
}

impl KnownMember {
    /// What becomes of the node, when this is who foca has of it.
    fn apply_liveness(&mut self, seen: Option<&LiveMember>, grace: Duration, now: ClockReading) {
        self.live = None;
        if let Some(seen) = seen.filter(|seen| seen.identity.base_incarnation() >= self.facts.incarnation) {
            if seen.identity.base_incarnation() > self.facts.incarnation {
                // It began again, and has not yet said anything else.
                let facts = Arc::make_mut(&mut self.facts);
                facts.incarnation = base_incarnation(seen.identity.incarnation);
                facts.address = seen.identity.address;
                facts.version = 0;
                (facts.left, facts.draining) = (false, false);
            }
            self.live = Some(seen.identity);
            let standing = Presence::Live { suspect: seen.suspect };
            if self.facts.left {
                self.change_presence(Presence::Departed(DepartureReason::Left), now);
            } else {
                self.change_presence(standing, now);
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

    fn change_presence(&mut self, standing: Presence, now: ClockReading) {
        if self.presence != standing {
            self.set_presence(standing, Duration::ZERO, now);
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
