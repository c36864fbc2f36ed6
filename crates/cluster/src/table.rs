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

use crate::entry::{Entry, Gone, How, Live};
use crate::identity::{Identity, boot};
use crate::{Facts, Member, State};

/// More nodes are not known: a bound for what strangers can make a node hold.
pub(crate) const MEMBERS_MAX: usize = 1_000;

/// The moment, by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    pub(crate) uptime: Duration,
    pub(crate) wall: Millis,
}

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// How long a node that is gone is remembered.
    pub(crate) remember: Duration,
    /// How long a node that is only known from hearsay is taken for alive.
    pub(crate) grace: Duration,
    /// How long two nodes have to claim one id before it is not just a node that moved.
    pub(crate) twins: Duration,
}

/// A node that foca takes for alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) identity: Identity,
    pub(crate) suspect: bool,
}

/// All nodes but this one.
#[derive(Debug)]
pub(crate) struct Table {
    me: Id,
    times: Times,
    nodes: BTreeMap<Id, Node>,
    /// Their states when they were last settled.
    settled: BTreeMap<Id, (State, SocketAddr)>,
    /// Ids that several live nodes claim, and since when.
    twins: BTreeMap<Id, (Duration, Twins)>,
    /// Processes that foca takes for alive, and that a probe has found not to be there.
    absent: BTreeSet<Identity>,
    /// Processes of which others have the same id.
    claimants: BTreeSet<Identity>,
    /// The highest incarnation of this node's id that anybody told of.
    claim: Id,
}

#[derive(Debug)]
struct Node {
    facts: Arc<Facts>,
    standing: Standing,
    /// Since when, by the clock that never goes back; what was before this process began is in `before`.
    since: Duration,
    before: Duration,
    since_wall: Millis,
    /// Who it is, when foca has it.
    live: Option<Identity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Unheard,
    Live { suspect: bool },
    Gone(How),
}

/// Where two live nodes with one id are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Twins {
    /// The one that was started earlier, and is passed over.
    pub(crate) older: SocketAddr,
    pub(crate) newer: SocketAddr,
}

impl Twins {
    /// Where the other one is.
    pub(crate) fn other_than(self, address: SocketAddr) -> SocketAddr {
        if self.older == address { self.newer } else { self.older }
    }
}

/// What became of what was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It was known.
    Nothing,
    /// Newer facts of a node whose standing is the same.
    Facts,
    /// A node is new, began again, or is gone.
    Standing,
    /// There is no room for another node.
    Full,
}

/// A node whose standing changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) node: Id,
    pub(crate) address: SocketAddr,
    /// None when it is known no more.
    pub(crate) state: Option<State>,
}

impl Node {
    fn age(&self, now: Now) -> Duration {
        self.before.saturating_add(now.uptime.saturating_sub(self.since))
    }

    fn set(&mut self, standing: Standing, before: Duration, now: Now) {
        let age = u64::try_from(before.as_millis()).unwrap_or(u64::MAX);
        (self.standing, self.since, self.before) = (standing, now.uptime, before);
        self.since_wall = Millis(now.wall.0.saturating_sub(age));
    }

    fn state(&self) -> Option<State> {
        match self.standing {
            Standing::Live { suspect: false } => Some(State::Alive),
            Standing::Live { suspect: true } | Standing::Unheard => Some(State::Suspect),
            Standing::Gone(How::Down) => Some(State::Down),
            Standing::Gone(How::Left) => Some(State::Left),
            Standing::Gone(How::Forgotten) => None,
        }
    }
}

impl Table {
    pub(crate) fn new(me: Id, times: Times) -> Self {
        Self {
            me,
            times,
            nodes: BTreeMap::new(),
            settled: BTreeMap::new(),
            twins: BTreeMap::new(),
            absent: BTreeSet::new(),
            claimants: BTreeSet::new(),
            claim: Id::MIN,
        }
    }

    /// The highest incarnation in which anybody has seen a node with this one's id.
    pub(crate) fn claim(&self) -> Id {
        self.claim
    }

    /// Takes in what somebody tells of a node.
    pub(crate) fn hear(&mut self, entry: Entry, now: Now) -> Heard {
        if entry.facts.node == self.me {
            self.claim = self.claim.max(entry.newest());
            return Heard::Nothing;
        }
        let gone = entry.gone.or(entry.facts.left.then_some(Gone { how: How::Left, for_ms: 0 }));
        let known = self.nodes.get(&entry.facts.node).map(|node| node.facts.age());
        if known.is_none_or(|(incarnation, _)| entry.facts.incarnation > incarnation) {
            return self.begin(entry.facts, gone, now);
        }
        let Some(node) = self.nodes.get_mut(&entry.facts.node) else { return Heard::Nothing };
        if entry.facts.incarnation < node.facts.incarnation {
            return Heard::Nothing;
        }
        let mut heard = Heard::Nothing;
        // Of the same age are those to be taken that nobody passed on who left out what it does not know.
        let telling = |facts: &Facts| (facts.version, facts.protocol_minor);
        if telling(&entry.facts) > telling(&node.facts) {
            heard = if entry.facts.left == node.facts.left { Heard::Facts } else { Heard::Standing };
            node.facts = Arc::new(entry.facts);
        }
        if let Some(gone) = gone {
            let worse = match node.standing {
                Standing::Unheard => true,
                // That it left, itself has said; else foca knows better.
                Standing::Live { .. } => gone.how == How::Left && node.facts.left,
                Standing::Gone(how) => gone.how > how,
            };
            if worse {
                node.set(Standing::Gone(gone.how), gone.time(), now);
                heard = Heard::Standing;
            } else if node.standing == Standing::Gone(gone.how) && gone.time() > node.age(now) {
                node.set(node.standing, gone.time(), now);
            }
        }
        heard
    }

    /// A node that was not known, or that began again.
    fn begin(&mut self, facts: Facts, gone: Option<Gone>, now: Now) -> Heard {
        if gone.is_some_and(|gone| gone.time() >= self.times.remember) {
            return Heard::Nothing;
        }
        if !self.nodes.contains_key(&facts.node) && !self.make_room(gone.is_some(), now) {
            return Heard::Full;
        }
        let standing = gone.map_or(Standing::Unheard, |gone| Standing::Gone(gone.how));
        let live = self.nodes.get(&facts.node).and_then(|node| node.live);
        let id = facts.node;
        let mut node = Node {
            facts: Arc::new(facts),
            standing,
            since: now.uptime,
            before: Duration::ZERO,
            since_wall: now.wall,
            live,
        };
        node.set(standing, gone.map_or(Duration::ZERO, |gone| gone.time()), now);
        self.nodes.insert(id, node);
        Heard::Standing
    }

    /// Whether there is room for one more; tombstones make way for who is not gone.
    fn make_room(&mut self, gone: bool, now: Now) -> bool {
        if self.nodes.len() < MEMBERS_MAX {
            return true;
        }
        let tombstones =
            self.nodes.iter().filter(|(_, node)| matches!(node.standing, Standing::Gone(How::Left | How::Forgotten)));
        let oldest = tombstones.max_by_key(|(_, node)| node.age(now)).map(|(id, _)| *id);
        !gone && oldest.is_some_and(|oldest| self.nodes.remove(&oldest).is_some())
    }

    /// Takes in who is alive by foca, and lets time pass. `seen` is this node, too.
    pub(crate) fn settle(&mut self, seen: &[Seen], now: Now) -> Vec<Change> {
        self.absent.retain(|gone| seen.iter().any(|seen| seen.identity == *gone));
        let seen: Vec<Seen> = seen.iter().filter(|seen| !self.absent.contains(&seen.identity)).copied().collect();
        let by_node = self.sort(&seen, now);
        for (id, node) in &mut self.nodes {
            node.settle(by_node.get(id), self.times.grace, now);
        }
        let remember = self.times.remember;
        self.nodes.retain(|_, node| !matches!(node.standing, Standing::Gone(_)) || node.age(now) < remember);
        let states = self.nodes.iter().filter_map(|(id, node)| Some((*id, (node.state()?, node.facts.address))));
        let before = std::mem::replace(&mut self.settled, states.collect());
        let gone = before.iter().filter(|(id, _)| !self.settled.contains_key(id));
        let gone = gone.map(|(id, (_, address))| Change { node: *id, address: *address, state: None });
        let changed = self.settled.iter().filter(|(id, (state, _))| before.get(id).is_none_or(|(was, _)| was != state));
        let changed =
            changed.map(|(id, (state, address))| Change { node: *id, address: *address, state: Some(*state) });
        gone.chain(changed).collect()
    }

    /// The latest of those who claim an id; and remembers which ids several claim.
    fn sort(&mut self, seen: &[Seen], now: Now) -> BTreeMap<Id, Seen> {
        let mut latest: BTreeMap<Id, Seen> = BTreeMap::new();
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
                twins.insert(id, Twins { older: older.identity.address, newer: newer.identity.address });
            } else {
                latest.insert(id, *seen);
            }
        }
        // Foca has not heard of the one that was started later, or knows that it went, and the earlier one is alive.
        for (id, node) in &self.nodes {
            let earlier = latest.get(id).filter(|seen| seen.identity.boot() < node.facts.incarnation);
            if let Some(older) = earlier.map(|seen| seen.identity.address).filter(|older| *older != node.facts.address)
            {
                twins.entry(*id).or_insert(Twins { older, newer: node.facts.address });
            }
        }
        let claims = |seen: &&Seen| twins.contains_key(&seen.identity.node);
        self.claimants = seen.iter().filter(claims).map(|seen| seen.identity).collect();
        let since = |id: &Id| self.twins.get(id).map_or(now.uptime, |(since, _)| *since);
        self.twins = twins.into_iter().map(|(id, twins)| (id, (since(&id), twins))).collect();
        latest
    }

    /// Nodes that foca takes for alive and whose own facts have not come.
    pub(crate) fn wanted<'a>(&'a self, seen: &'a [Seen]) -> impl Iterator<Item = Identity> + 'a {
        seen.iter().map(|seen| seen.identity).filter(|identity| {
            let of = self.nodes.get(&identity.node);
            identity.node != self.me
                && of.is_none_or(|node| {
                    let (incarnation, version) = node.facts.age();
                    incarnation < identity.boot() || (incarnation == identity.boot() && version == 0)
                })
        })
    }

    /// Nodes that are not there and may come back, and where they were.
    pub(crate) fn missing(&self) -> Vec<(Id, SocketAddr)> {
        let missing = self
            .nodes
            .iter()
            .filter(|(_, node)| matches!(node.standing, Standing::Unheard | Standing::Gone(How::Down)));
        missing.map(|(id, node)| (*id, node.facts.address)).collect()
    }

    /// Marks a node that is gone as one that will not come back.
    ///
    /// # Errors
    /// As [`crate::Cluster::forget`].
    pub(crate) fn forget(&mut self, id: Id, now: Now) -> Result<(), crate::ForgetError> {
        let node = if id == self.me { return Err(crate::ForgetError::Live) } else { self.nodes.get_mut(&id) };
        match node {
            Some(node) if matches!(node.standing, Standing::Gone(How::Down | How::Left)) => {
                node.set(Standing::Gone(How::Forgotten), Duration::ZERO, now);
                Ok(())
            }
            None | Some(Node { standing: Standing::Gone(How::Forgotten), .. }) => Err(crate::ForgetError::Unknown),
            Some(_) => Err(crate::ForgetError::Live),
        }
    }

    /// One node, to be told of.
    pub(crate) fn entry(&self, id: Id, now: Now) -> Option<Entry> {
        self.nodes.get(&id).map(|node| node.entry(now))
    }

    /// All nodes, to be told of.
    pub(crate) fn entries(&self, now: Now) -> Vec<Entry> {
        self.nodes.values().map(|node| node.entry(now)).collect()
    }

    /// Ids that several live nodes have claimed for longer than a move takes.
    pub(crate) fn twins(&self, now: Now) -> BTreeMap<Id, Twins> {
        let lasting = |since: Duration| now.uptime.saturating_sub(since) >= self.times.twins;
        self.twins.iter().filter(|(_, (since, _))| lasting(*since)).map(|(id, (_, twins))| (*id, *twins)).collect()
    }

    /// Whether another live node claims this one's id, even if just now.
    pub(crate) fn has_twin(&self) -> bool {
        self.twins.contains_key(&self.me)
    }

    /// Processes whose id another live one has, too.
    pub(crate) fn claimants(&self) -> &BTreeSet<Identity> {
        &self.claimants
    }

    /// Takes note that a process is not there, whatever foca says. It counts when the table is settled next.
    pub(crate) fn is_absent(&mut self, identity: Identity) {
        self.absent.insert(identity);
    }

    /// Where the live nodes are that claim an id, even if just now, when there are two.
    pub(crate) fn both(&self, id: Id) -> Option<Twins> {
        self.twins.get(&id).map(|(_, twins)| *twins)
    }

    /// All nodes but this one, as they are shown.
    pub(crate) fn members(&self, now: Now) -> Vec<Member> {
        let twins = self.twins(now);
        let members = self.nodes.iter().filter_map(|(id, node)| {
            let twin = twins.get(id).map(|twins| twins.older);
            Some(Member {
                facts: Arc::clone(&node.facts),
                state: node.state()?,
                since: node.since_wall,
                twin,
                also_at: self.both(*id).map(|twins| twins.other_than(node.facts.address)),
                apart: None,
            })
        });
        members.collect()
    }
}

impl Node {
    /// What becomes of the node, when this is who foca has of it.
    fn settle(&mut self, seen: Option<&Seen>, grace: Duration, now: Now) {
        self.live = None;
        if let Some(seen) = seen.filter(|seen| seen.identity.boot() >= self.facts.incarnation) {
            if seen.identity.boot() > self.facts.incarnation {
                // It began again, and has not yet said anything else.
                let facts = Arc::make_mut(&mut self.facts);
                facts.incarnation = boot(seen.identity.incarnation);
                facts.address = seen.identity.address;
                facts.version = 0;
                (facts.left, facts.draining) = (false, false);
            }
            self.live = Some(seen.identity);
            let standing = Standing::Live { suspect: seen.suspect };
            if self.facts.left {
                self.settle_as(Standing::Gone(How::Left), now);
            } else {
                self.settle_as(standing, now);
            }
            return;
        }
        match self.standing {
            Standing::Live { .. } if self.facts.left => self.settle_as(Standing::Gone(How::Left), now),
            Standing::Live { .. } => self.settle_as(Standing::Gone(How::Down), now),
            Standing::Unheard if self.age(now) >= grace => self.settle_as(Standing::Gone(How::Down), now),
            Standing::Unheard | Standing::Gone(_) => {}
        }
    }

    fn settle_as(&mut self, standing: Standing, now: Now) {
        if self.standing != standing {
            self.set(standing, Duration::ZERO, now);
        }
    }

    fn entry(&self, now: Now) -> Entry {
        let gone = match self.standing {
            Standing::Gone(how) => Some(Gone::new(how, self.age(now))),
            Standing::Unheard | Standing::Live { .. } => None,
        };
        let live = self.live.filter(|_| gone.is_none());
        let live = live.map(|live| Live { incarnation: live.incarnation, address: live.address });
        Entry { facts: Facts::clone(&self.facts), gone, live, awaiting: false }
    }
}

#[cfg(test)]
mod tests;
