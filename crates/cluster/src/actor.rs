//! The one task that owns all that is known: it takes datagrams, commands and time, one after the other.
//!
//! Commands and datagrams that are there already come before timers. So a node that stood still for a while first hears what
//! was said meanwhile, and only then finds that somebody has not answered.

mod apart;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bucksaw_doors::{Doors, Net, Tasks, Waiting, run};
use bucksaw_record::{Id, Millis, Producer};
use foca::Timer;
use tokio::sync::{mpsc, oneshot, watch};

use crate::entry::{Entry, Live};
use crate::gossip::Gossip;
use crate::identity::Identity;
use crate::keep::{Keep, Kept};
use crate::metrics::{ByState, Metrics};
use crate::packet::{self, Bad, Packet};
use crate::reach::{Goal, Reach, one, reach};
use crate::strange::{Stranger, Strangers};
use crate::table::{Change, Heard, Now, Seen, Table, Times, Twins};
use crate::timers::Timers;
use crate::{Config, Facts, ForgetError, Member, State, Version, pick};

/// How often facts that came in are shown, and whatever else is not urgent is done.
const TICK: Duration = Duration::from_millis(200);

/// Datagrams and commands that are taken before time is looked at again.
const BATCH: usize = 64;

/// Own facts are told to so many at once; in larger clusters the others hear of them by comparing lists.
const TELL_MAX: usize = 64;

/// Those who are tried at once while nobody is there, of each kind.
const TRY_MAX: usize = 4;

/// `members.json` is written at most so often when somebody came or went, and so often when only facts changed.
const SAVE_PERIODS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(60)];

/// A node takes a later incarnation at most so often.
const SUCCEED_PERIOD: Duration = Duration::from_secs(1);

/// Who is told of a goodbye by a call, and how long each may take to hear it.
const GOODBYES: usize = 3;
const GOODBYE_TIME: Duration = Duration::from_millis(500);

/// What others ask of the task.
#[derive(Debug)]
pub(crate) enum Command {
    /// Another node compares lists.
    Compare {
        entries: Vec<Entry>,
        reply: oneshot::Sender<Vec<Entry>>,
    },
    /// This node did.
    Compared {
        goal: Goal,
        result: io::Result<Vec<Entry>>,
    },
    /// A node of another major version did.
    Strange(Stranger),
    /// The list was written.
    Saved(io::Result<()>),
    Forget {
        node: Id,
        reply: oneshot::Sender<Result<(), ForgetError>>,
    },
    Leave {
        reply: oneshot::Sender<()>,
    },
}

#[derive(Debug)]
enum Alarm {
    Gossip(Timer<Identity>),
    Tick,
}

/// What the task was given.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) config: Config,
    pub(crate) doors: Doors,
    pub(crate) tasks: Arc<dyn Tasks>,
    pub(crate) net: Arc<dyn Net>,
    pub(crate) metrics: Metrics,
    pub(crate) me: watch::Sender<Facts>,
    pub(crate) members: watch::Sender<Arc<Vec<Member>>>,
    pub(crate) strangers: watch::Sender<Vec<Stranger>>,
    pub(crate) commands: mpsc::Sender<Command>,
}

pub(crate) struct Actor {
    given: Given,
    table: Table,
    gossip: Gossip,
    reach: Reach,
    timers: Timers<Alarm>,
    keep: Keep,
    /// This node, as it was last told.
    own: Facts,
    /// Changes of the own facts that were not taken over are told of once.
    refused: bool,
    started: Now,
    told: Option<Duration>,
    succeeded: Option<Duration>,
    twins: BTreeMap<Id, Twins>,
    strangers: Strangers,
    /// What this node and others cannot do with each other, as it was last told of.
    apart: BTreeMap<Id, String>,
    /// Since when somebody has come or gone, or facts have changed, and it was not written.
    unsaved: [bool; 2],
    saved: Option<Duration>,
    saving: bool,
    left: bool,
}

/// What the task is woken by.
enum Event {
    Command(Option<Command>),
    Datagram((SocketAddr, Vec<u8>)),
    Facts,
    Time,
}

impl Actor {
    /// Reads what was kept.
    ///
    /// # Errors
    /// As [`crate::Cluster::start`].
    pub(crate) fn new(given: Given) -> io::Result<Self> {
        let keep = Keep::new(given.doors.fs.clone(), &given.config.data_dir);
        let started = now(&given.doors);
        let kept = keep.read()?;
        let last = kept.as_ref().map_or(Id::MIN, |kept| kept.incarnation);
        let me = Identity {
            node: given.me.borrow().node,
            incarnation: after(last, &given.doors),
            address: plain(given.net.address()),
        };
        let config = &given.config;
        let grace = config.suspect_time + 2 * config.probe_period;
        let times = Times { remember: config.remember, grace, twins: 3 * grace };
        let mut table = Table::new(me.node, times);
        for entry in kept.into_iter().flat_map(|kept| kept.members) {
            table.hear(entry, started);
        }
        let own = Facts { incarnation: me.incarnation, version: 1, address: me.address, ..given.me.borrow().clone() };
        let Version { major, minor } = config.speaks;
        let own = Facts { protocol: major, protocol_minor: minor, left: false, ..own };
        if !own.is_sound() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the node's address or one for its clients is none that others could use",
            ));
        }
        let gossip = Gossip::new(me, config, given.doors.entropy.clone());
        let reach = Reach::new(config.exchange_period);
        let mut timers = Timers::new();
        timers.add(started.uptime, Alarm::Tick);
        let mut actor = Self {
            given,
            table,
            gossip,
            reach,
            timers,
            keep,
            own,
            refused: false,
            started,
            told: None,
            succeeded: None,
            twins: BTreeMap::new(),
            strangers: Strangers::default(),
            apart: BTreeMap::new(),
            unsaved: [true, false],
            saved: None,
            saving: false,
            left: false,
        };
        actor.own_up();
        actor.settle();
        Ok(actor)
    }

    /// Goes on until the node leaves.
    pub(crate) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let net = self.given.net.clone();
        let mut facts = self.given.me.subscribe();
        let mut datagram = net.receive();
        let mut sleep: Option<(Duration, Waiting<()>)> = None;
        while !self.left {
            for _ in 0..BATCH {
                let Ok(command) = commands.try_recv() else { break };
                self.command(command).await;
            }
            for _ in 0..BATCH {
                let Some((from, bytes)) = ready(&mut datagram).await else { break };
                datagram = net.receive();
                self.datagram(from, &bytes);
            }
            let time = self.now().uptime;
            while let Some(alarm) = self.timers.due(time) {
                self.alarm(alarm);
            }
            self.flush();
            if self.left {
                break;
            }
            let next = self.timers.next().unwrap_or(time + TICK);
            if sleep.as_ref().is_none_or(|(until, _)| *until != next) {
                sleep = Some((next, self.given.tasks.sleep(next.saturating_sub(self.now().uptime))));
            }
            let Some((_, over)) = &mut sleep else { break };
            let event = tokio::select! {
                biased;
                command = commands.recv() => Event::Command(command),
                came = &mut datagram => Event::Datagram(came),
                Ok(()) = facts.changed() => Event::Facts,
                () = over => Event::Time,
            };
            match event {
                Event::Command(Some(command)) => self.command(command).await,
                // The floors above hold nothing of the cluster any more.
                Event::Command(None) => break,
                Event::Datagram((from, bytes)) => {
                    datagram = net.receive();
                    self.datagram(from, &bytes);
                }
                Event::Facts => self.own_facts(),
                Event::Time => sleep = None,
            }
            self.flush();
        }
    }

    fn now(&self) -> Now {
        now(&self.given.doors)
    }

    async fn command(&mut self, command: Command) {
        match command {
            Command::Compare { entries, reply } => {
                self.learn(entries);
                // The other may have given up.
                let _ = reply.send(self.entries());
            }
            Command::Compared { goal, result } => self.compared(&goal, result),
            Command::Strange(stranger) => {
                self.given.metrics.exchanges_of_other_version.inc();
                self.strange(stranger);
            }
            Command::Saved(result) => {
                self.saving = false;
                if let Err(error) = result {
                    tracing::warn!(%error, "the list of nodes could not be written: it is tried again");
                    self.unsaved[0] = true;
                }
            }
            Command::Forget { node, reply } => {
                let forgotten = self.table.forget(node, self.now());
                if forgotten.is_ok() {
                    self.settle();
                    if let Some(entry) = self.table.entry(node, self.now()) {
                        self.tell(&entry);
                    }
                }
                let _ = reply.send(forgotten);
            }
            Command::Leave { reply } => {
                self.leave().await;
                let _ = reply.send(());
            }
        }
    }

    fn datagram(&mut self, from: SocketAddr, bytes: &[u8]) {
        self.given.metrics.packets_received.inc();
        match Packet::parse(bytes) {
            Ok(Packet::Gossip(packet)) => {
                if let Some(rival) = self.gossip.rival(&packet) {
                    self.succeed(rival.boot());
                }
                if !self.gossip.receive(&packet, self.now().uptime) {
                    self.given.metrics.packets_bad.inc();
                }
            }
            Ok(Packet::Facts(entry)) => {
                self.hear([*entry]);
            }
            Err(Bad::Newer) => {
                self.given.metrics.packets_of_later_kinds.inc();
            }
            Err(Bad::Malformed) => {
                self.given.metrics.packets_bad.inc();
            }
            Err(Bad::Version(protocol)) => {
                self.given.metrics.packets_of_other_version.inc();
                self.strange(Stranger { address: Some(plain(from)), protocol: protocol.into() });
            }
        }
        self.flush();
    }

    fn alarm(&mut self, alarm: Alarm) {
        match alarm {
            Alarm::Gossip(timer) => {
                self.gossip.timer(timer);
                self.flush();
            }
            Alarm::Tick => {
                self.tick();
                self.timers.add(self.now().uptime + TICK, Alarm::Tick);
            }
        }
    }

    /// What is done now and then.
    fn tick(&mut self) {
        self.settle();
        if self.table.claim() > self.own.incarnation && !self.table.has_twin() {
            self.succeed(self.table.claim());
        }
        self.own_facts();
        self.strangers.pass(self.now().uptime);
        self.reach_out();
        self.save();
    }

    /// Does what foca wants done.
    fn flush(&mut self) {
        let now = self.now().uptime;
        let todo = self.gossip.todo(now);
        for (after, timer) in todo.timers {
            self.timers.add(now + after, Alarm::Gossip(timer));
        }
        for (to, datagram) in todo.send {
            self.send(to, datagram);
        }
        if todo.changed {
            self.settle();
        }
        if todo.renewed {
            self.own_up();
        }
        if todo.defunct && !self.own.left {
            self.succeed(self.own.incarnation);
        }
        if !todo.up.is_empty()
            && let Some(datagram) = packet::facts(&self.own_entry())
        {
            for identity in todo.up {
                self.send(identity.address, datagram.clone());
            }
        }
    }

    fn send(&self, to: SocketAddr, datagram: Vec<u8>) {
        self.given.metrics.packets_sent.inc();
        self.given.net.send(to, datagram);
    }

    /// Tells everyone of a node.
    fn tell(&self, entry: &Entry) {
        let Some(datagram) = packet::facts(entry) else { return };
        let me = self.gossip.me().address;
        let others = self.gossip.seen().into_iter().map(|seen| seen.identity.address).filter(|address| *address != me);
        for address in pick::some(self.given.doors.entropy.as_ref(), others.collect(), TELL_MAX) {
            self.send(address, datagram.clone());
        }
    }

    /// Takes over what the floors above say of this node, and tells it, but not too often.
    fn own_facts(&mut self) {
        let kept = &self.own;
        let wished = Facts {
            node: kept.node,
            incarnation: kept.incarnation,
            version: kept.version,
            address: kept.address,
            protocol: kept.protocol,
            protocol_minor: kept.protocol_minor,
            left: kept.left,
            ..self.given.me.borrow().clone()
        };
        let time = self.now().uptime;
        if wished == self.own || self.told.is_some_and(|told| time.saturating_sub(told) < self.given.config.tell_period)
        {
            return;
        }
        if !wished.is_sound() {
            if !std::mem::replace(&mut self.refused, true) {
                tracing::error!("facts of this node are beyond their bounds, and others are not told of them");
            }
            return;
        }
        self.own = wished;
        self.own_up();
    }

    /// Says something new about this node.
    fn own_up(&mut self) {
        self.own.version += 1;
        self.told = Some(self.now().uptime);
        self.unsaved[1] = true;
        let own = self.own.clone();
        self.given.me.send_if_modified(|facts| {
            (facts.incarnation, facts.version, facts.address) = (own.incarnation, own.version, own.address);
            (facts.protocol, facts.protocol_minor, facts.left) = (own.protocol, own.protocol_minor, own.left);
            // It is no news to this task, and the floors above did not say it.
            false
        });
        self.tell(&self.own_entry());
        self.publish();
    }

    fn own_entry(&self) -> Entry {
        let me = self.gossip.me();
        let live = (!self.own.left).then_some(Live { incarnation: me.incarnation, address: me.address });
        Entry { facts: self.own.clone(), gone: None, live }
    }

    /// All that is known, this node first.
    fn entries(&self) -> Vec<Entry> {
        let mut entries = vec![self.own_entry()];
        entries.extend(self.table.entries(self.now()));
        entries
    }

    /// Takes in what another node knows. The first is about itself.
    fn learn(&mut self, entries: Vec<Entry>) {
        let live: Vec<Identity> = entries.iter().filter_map(Entry::identity).collect();
        let me = self.gossip.me();
        // Whoever was here before, alive or not: others would go on believing that one.
        let rivals = entries.iter().filter(|entry| entry.is_at(me.address)).map(Entry::newest);
        if let Some(rival) = rivals.max().filter(|rival| *rival > me.boot()) {
            self.succeed(rival);
        }
        self.gossip.learn(live.iter().copied());
        if let Some(peer) = live.first().filter(|peer| peer.address != me.address)
            && !self.gossip.seen().iter().any(|seen| seen.identity == *peer)
        {
            // It is there, and was taken for dead; this lets it know, and it comes back under a new incarnation.
            self.gossip.announce(*peer);
        }
        self.hear(entries);
        self.flush();
    }

    fn hear(&mut self, entries: impl IntoIterator<Item = Entry>) {
        let now = self.now();
        let mut most = Heard::Nothing;
        for entry in entries {
            match self.table.hear(entry, now) {
                Heard::Nothing => {}
                Heard::Full => {
                    self.given.metrics.strangers.inc();
                }
                heard => most = if most == Heard::Standing { most } else { heard },
            }
        }
        match most {
            Heard::Standing => self.settle(),
            Heard::Facts => self.unsaved[1] = true,
            Heard::Nothing | Heard::Full => {}
        }
    }

    /// Draws the conclusions from what foca knows, and shows them.
    fn settle(&mut self) {
        let now = self.now();
        for Change { node, address, state } in self.table.settle(&self.gossip.seen(), now) {
            self.unsaved[0] = true;
            match state {
                Some(State::Alive) => tracing::info!(%node, %address, "node is alive"),
                Some(State::Suspect) => tracing::debug!(%node, %address, "node is suspected to be down"),
                Some(State::Down) => tracing::warn!(%node, %address, "node is down"),
                Some(State::Left) => tracing::info!(%node, %address, "node has left"),
                None => tracing::info!(%node, %address, "node is known no more"),
            }
        }
        let twins = self.table.twins(now);
        for (node, Twins { older, newer }) in twins.iter().filter(|(node, _)| !self.twins.contains_key(node)) {
            tracing::error!(%node, %older, %newer, "two live nodes have the same id: the data directory of one is a copy of the other's; stop one and remove its node.json");
        }
        self.twins = twins;
        self.publish();
    }

    /// Shows all nodes to the floors above.
    fn publish(&mut self) {
        let now = self.now();
        let mut members = self.table.members(now);
        let state = if self.own.left { State::Left } else { State::Alive };
        let twin = self.twins.get(&self.own.node);
        let twin = twin.map(|twins| if twins.older == self.own.address { twins.newer } else { twins.older });
        members.push(Member { facts: self.own.clone(), state, since: self.started.wall, twin, apart: None });
        self.tell_apart(&mut members);
        members.sort_unstable_by_key(|member| member.facts.node);
        for state in State::ALL {
            let count = members.iter().filter(|member| member.state == state).count();
            let label = ByState { state: state.word() };
            self.given.metrics.members.get_or_create(&label).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        self.given.metrics.twins.set(i64::try_from(self.twins.len()).unwrap_or(i64::MAX));
        self.given.members.send_if_modified(|shown| {
            let changed = **shown != members;
            if changed {
                *shown = Arc::new(members);
            }
            changed
        });
    }

    /// Goes on in an incarnation after this one: somebody else at this address, or this node by a clock that ran ahead, was in
    /// a later one than this, and would be believed.
    fn succeed(&mut self, last: Id) {
        let time = self.now().uptime;
        if self.left || self.succeeded.is_some_and(|at| time.saturating_sub(at) < SUCCEED_PERIOD) {
            return;
        }
        let incarnation = after(last, &self.given.doors);
        if incarnation <= last {
            return;
        }
        tracing::info!(%last, %incarnation, "others know a later incarnation at this address: this node goes on in one after it");
        self.succeeded = Some(time);
        self.own.incarnation = incarnation;
        self.unsaved[0] = true;
        self.gossip.become_(Identity { incarnation, ..self.gossip.me() });
        self.own_up();
    }

    /// Compares lists with those with whom it is time to.
    fn reach_out(&mut self) {
        let entropy = self.given.doors.entropy.clone();
        let entropy = entropy.as_ref();
        let alone = self.gossip.is_alone();
        let due = self.reach.due(alone, self.now().uptime, entropy.next_u64());
        let seen = self.gossip.seen();
        let is_live = |address: &SocketAddr| seen.iter().any(|seen| seen.identity.address == *address);
        let missing: Vec<SocketAddr> = self.table.missing().into_iter().map(|(_, address)| address).collect();
        let missing: Vec<SocketAddr> = missing.into_iter().filter(|address| !is_live(address)).collect();
        let hosts = self.given.config.join.clone();
        let mut goals = Vec::new();
        if due.alone {
            goals.extend(pick::some(entropy, missing.clone(), TRY_MAX).into_iter().map(Goal::Address));
            goals.extend(pick::some(entropy, hosts.clone(), TRY_MAX).into_iter().map(Goal::Host));
            for identity in pick::some(entropy, self.gossip.down(), TRY_MAX) {
                self.gossip.announce(identity);
            }
        }
        if due.exchange {
            let me = self.gossip.me().address;
            let live = seen.iter().map(|seen| seen.identity.address).filter(|address| *address != me).collect();
            goals.extend(pick::some(entropy, live, 1).into_iter().map(Goal::Address));
            goals.extend(pick::some(entropy, missing, 1).into_iter().map(Goal::Address));
        }
        if due.join {
            goals.extend(pick::some(entropy, hosts, 1).into_iter().map(Goal::Host));
        }
        goals.extend(self.wanted(&seen).into_iter().map(Goal::Address));
        for goal in goals {
            self.compare(goal);
        }
    }

    /// One of those who are there and whose facts are not.
    fn wanted(&self, seen: &[Seen]) -> Vec<SocketAddr> {
        let wanted = self.table.wanted(seen).map(|identity| identity.address).collect();
        pick::some(self.given.doors.entropy.as_ref(), wanted, 1)
    }

    fn compare(&mut self, goal: Goal) {
        if !self.reach.begin(&goal) {
            return;
        }
        let entries = self.entries();
        let (tasks, net, commands) = (self.given.tasks.clone(), self.given.net.clone(), self.given.commands.clone());
        self.given.tasks.spawn(Box::pin(async move {
            let result = reach(&tasks, &net, &goal, &entries).await;
            // The node may have left.
            let _ = commands.send(Command::Compared { goal, result }).await;
        }));
    }

    fn compared(&mut self, goal: &Goal, result: io::Result<Vec<Entry>>) {
        self.reach.done(goal);
        self.given.metrics.exchanges.inc();
        match (result, goal) {
            (Ok(entries), _) => self.learn(entries),
            (Err(error), goal) => {
                self.given.metrics.exchanges_failed.inc();
                let time = self.now().uptime;
                match goal {
                    Goal::Host(host) if self.reach.warns(host, time) => {
                        tracing::warn!(host, %error, "the node to join was not reached: it is tried again");
                    }
                    goal => tracing::debug!(?goal, %error, "lists could not be compared"),
                }
            }
        }
    }

    /// Writes the list when it is time to.
    fn save(&mut self) {
        let time = self.now().uptime;
        let waited = |period| self.saved.is_none_or(|saved| time.saturating_sub(saved) >= period);
        let [standing, facts] = self.unsaved;
        if self.saving || !(standing && waited(SAVE_PERIODS[0]) || facts && waited(SAVE_PERIODS[1])) {
            return;
        }
        (self.saving, self.saved, self.unsaved) = (true, Some(time), [false; 2]);
        let (keep, kept) = (self.keep.clone(), self.kept());
        let (tasks, commands) = (self.given.tasks.clone(), self.given.commands.clone());
        self.given.tasks.spawn(Box::pin(async move {
            let result = run(&tasks, move || keep.write(&kept)).await;
            let result = result.unwrap_or_else(|| Err(io::Error::other("writing the list ended by a bug")));
            // The node may have left.
            let _ = commands.send(Command::Saved(result)).await;
        }));
    }

    fn kept(&self) -> Kept {
        Kept { incarnation: self.own.incarnation, members: self.table.entries(self.now()) }
    }

    /// Tells everyone by datagram, and some so that they surely have heard it; and writes the list a last time.
    async fn leave(&mut self) {
        // What changed a moment ago is told first, whenever the last was: that the queue is empty, say.
        self.told = None;
        self.own_facts();
        self.own.left = true;
        self.own_up();
        let me = self.gossip.me().address;
        let live = self.gossip.seen().into_iter().map(|seen| seen.identity.address).filter(|address| *address != me);
        let own = [self.own_entry()];
        for address in pick::some(self.given.doors.entropy.as_ref(), live.collect(), GOODBYES) {
            if let Err(error) = one(&self.given.tasks, &self.given.net, address, &own, GOODBYE_TIME).await {
                tracing::debug!(%address, %error, "a goodbye was not heard");
            }
        }
        self.gossip.leave();
        self.flush();
        self.left = true;
        let (keep, kept) = (self.keep.clone(), self.kept());
        if let Some(Err(error)) = run(&self.given.tasks, move || keep.write(&kept)).await {
            tracing::warn!(%error, "the list of nodes could not be written");
        }
    }
}

fn now(doors: &Doors) -> Now {
    Now { uptime: doors.clock.uptime(), wall: Millis(doors.clock.unix_ms()) }
}

/// An incarnation that begins now, and in any case after `last`.
fn after(last: Id, doors: &Doors) -> Id {
    let at = if last == Id::MIN { Millis(0) } else { Millis(last.at().0.saturating_add(1)) };
    Id::new(at.max(Millis(doors.clock.unix_ms())), Producer::drawn(doors.entropy.next_u64()), 0)
}

/// An address without what is of this machine only.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

/// What comes of `waiting`, if it is there already.
async fn ready<T>(waiting: &mut Waiting<T>) -> Option<T> {
    std::future::poll_fn(|context| match waiting.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
