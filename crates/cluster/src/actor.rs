//! The one task that owns all that is known: it takes datagrams, commands and time, one after the other.
//!
//! Commands and datagrams that are there already come before timers. So a node that stood still for a while first hears what
//! was said meanwhile, and only then finds that somebody has not answered.

mod apart;
mod compare;
mod leave;
mod own;
mod post;
mod probe;
mod save;
mod show;
mod start;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bucksaw_doors::{Doors, Net, Repeats, Tasks, Waiting};
use bucksaw_record::{Id, Millis};
use foca::Timer;
use tokio::sync::{mpsc, oneshot, watch};

use crate::awaited::Awaited;
use crate::entry::Entry;
use crate::gossip::Gossip;
use crate::identity::Identity;
use crate::keep::Keep;
use crate::metrics::Metrics;
use crate::place::{Answers, Found, Place, TOLD_MAX, look};
use crate::reach::{Goal, Reach};
use crate::strange::{Stranger, Strangers};
use crate::table::{Now, Table, Twins};
use crate::timers::Timers;
use crate::{Config, Facts, ForgetError, Member};
use probe::Probes;

/// How often facts that came in are shown, and whatever else is not urgent is done.
const TICK: Duration = Duration::from_millis(200);

/// Datagrams and commands that are taken before time is looked at again.
const BATCH: usize = 64;

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
    /// It was found out who answers where one of two processes with one id should be.
    Probed {
        identity: Identity,
        answers: Answers,
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
        reply: oneshot::Sender<bool>,
    },
    /// Others were told so, or it was given up.
    Left {
        heard: bool,
        reply: oneshot::Sender<bool>,
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
    pub(crate) place: watch::Sender<Place>,
    pub(crate) awaiting: watch::Sender<bool>,
    pub(crate) commands: mpsc::Sender<Command>,
}

pub(crate) struct Actor {
    given: Given,
    table: Table,
    gossip: Gossip,
    reach: Reach,
    awaited: Awaited,
    timers: Timers<Alarm>,
    keep: Keep,
    /// This node, as it was last told.
    own: Arc<Facts>,
    /// Changes of the own facts that were not taken over are told of once.
    refused: bool,
    started: Now,
    /// Nodes that are being told of this one, before it takes its place.
    telling: BTreeSet<Goal>,
    probes: Probes,
    told: Option<Duration>,
    doubted: Duration,
    succeeded: Option<Duration>,
    twins: BTreeMap<Id, Twins>,
    strangers: Strangers,
    /// What this node and others cannot do with each other, as it was last told of.
    apart: BTreeMap<Id, String>,
    /// Since when somebody has come or gone, or facts have changed, and it was not written.
    unsaved: [bool; 2],
    saved: Option<Duration>,
    saving: bool,
    save_errors: Repeats,
    /// Goodbyes that are answered when they are written: nobody else may have heard them, and who said them is gone then.
    goodbyes: Vec<oneshot::Sender<Vec<Entry>>>,
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
    /// Goes on until the node leaves; not at all when another process runs with its id.
    pub(crate) async fn run(mut self, commands: mpsc::Receiver<Command>) {
        let goals = self.table.missing().into_iter().map(|(_, address)| Goal::Address(address));
        let goals = goals.chain(self.given.config.join.iter().cloned().map(Goal::Host)).collect();
        match look(&self.given.tasks, &self.given.net, self.own.node, goals).await {
            Found::None { others, absent } => {
                absent.into_iter().for_each(|identity| self.table.is_absent(identity));
                self.place(Place::Telling);
                self.telling = others.into_iter().take(TOLD_MAX).map(Goal::Address).collect();
                self.telling.clone().into_iter().for_each(|goal| self.compare_now(goal));
                self.told_of(None);
            }
            Found::Twin(address) => return self.place(Place::Refused(address)),
        }
        self.go_on(commands).await;
    }

    /// Says whether this node has its place.
    pub(crate) fn place(&self, place: Place) {
        self.given.place.send_if_modified(|was| std::mem::replace(was, place) != place);
    }

    /// Takes the place when no other node is left that is to be told. Each was, or could not be reached in time.
    pub(crate) fn told_of(&mut self, goal: Option<&Goal>) {
        if let Some(goal) = goal {
            self.telling.remove(goal);
        }
        if self.telling.is_empty() {
            self.place(Place::Taken);
        }
    }

    async fn go_on(&mut self, mut commands: mpsc::Receiver<Command>) {
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
                let is_goodbye = entries.first().is_some_and(|entry| entry.facts.left);
                self.learn(entries);
                if is_goodbye {
                    self.goodbyes.push(reply);
                    self.save();
                } else {
                    self.reply_when_probed(reply);
                }
            }
            Command::Compared { goal, result } => self.compared(&goal, result),
            Command::Probed { identity, answers } => self.probed(identity, answers),
            Command::Strange(stranger) => {
                self.given.metrics.exchanges_of_other_version.inc();
                self.strange(stranger);
            }
            Command::Saved(result) => {
                self.saving = false;
                if let Err(error) = result {
                    self.unsaved[0] = true;
                    if let Some(suppressed) = self.save_errors.pass(self.now().uptime) {
                        tracing::warn!(%error, suppressed, "the list of nodes could not be written: it is tried again");
                    }
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
            Command::Leave { reply } => self.leave(reply),
            Command::Left { heard, reply } => {
                self.left().await;
                let _ = reply.send(heard);
            }
        }
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
        self.doubt();
        self.reach_out();
        self.save();
    }
}

fn now(doors: &Doors) -> Now {
    Now { uptime: doors.clock.uptime(), wall: Millis(doors.clock.unix_ms()) }
}

/// What comes of `waiting`, if it is there already.
async fn ready<T>(waiting: &mut Waiting<T>) -> Option<T> {
    std::future::poll_fn(|context| match waiting.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
