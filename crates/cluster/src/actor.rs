//! The task that owns the state of the crate and handles datagrams, commands and timers.
//!
//! Pending commands and datagrams are handled before timers. So a node that was paused first handles the packets that arrived
//! meanwhile, and does not take their senders for dead.

mod datagrams;
mod digest_exchange;
mod duplicate_probes;
mod graceful_leave;
mod local_facts;
mod member_view;
mod persistence;
mod start;
mod version_skew;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bucksaw_env::{BoxFuture, Env, LogLimits, Net, Tasks, log_limited};
use bucksaw_record::{Id, Millis};
use foca::Timer;
use tokio::sync::{mpsc, oneshot, watch};

use crate::bootstrap::Bootstrap;
use crate::entry::Entry;
use crate::exchange_schedule::{ExchangeSchedule, ExchangeTarget};
use crate::gossip::Gossip;
use crate::identity::Identity;
use crate::incompatible::{IncompatiblePeer, IncompatiblePeers};
use crate::join_state::{ANNOUNCE_MAX, DuplicateProbes, DuplicateSearch, JoinState, Responder, find_duplicate};
use crate::member_file::MemberFile;
use crate::metrics::Metrics;
use crate::table::{ClockReading, DuplicateId, ForgetError, MemberTable};
use crate::timers::Timers;
use crate::{Config, Facts, Member};

/// Interval of publishing received facts and of other periodic work.
const TICK: Duration = Duration::from_millis(200);

/// Maximum datagrams and commands handled before timers are checked.
const BATCH: usize = 64;

/// Requests and results for the actor.
#[derive(Debug)]
pub(crate) enum ActorCommand {
    /// Another node requests a digest exchange, or leaves.
    Exchange {
        entries: Vec<Entry>,
        reply: oneshot::Sender<Vec<Entry>>,
    },
    /// An exchange that this node requested has ended.
    Exchanged {
        goal: ExchangeTarget,
        result: io::Result<Vec<Entry>>,
    },
    /// The process at the address of a duplicate was probed.
    Probed {
        identity: Identity,
        responder: Responder,
    },
    /// An incompatible peer requested an exchange.
    IncompatiblePeer(IncompatiblePeer),
    /// The member file was written.
    Saved(io::Result<()>),
    Forget {
        node: Id,
        reply: oneshot::Sender<Result<(), ForgetError>>,
    },
    Leave {
        reply: oneshot::Sender<bool>,
    },
    /// The leave was acknowledged, or has timed out.
    LeaveSent {
        is_acknowledged: bool,
        reply: oneshot::Sender<bool>,
    },
}

#[derive(Debug)]
enum ActorTimer {
    Gossip(Timer<Identity>),
    Tick,
}

/// What [`Cluster`](crate::Cluster) and its actor share.
#[derive(Clone, Debug)]
pub(crate) struct ActorContext {
    pub(crate) config: Config,
    pub(crate) env: Env,
    pub(crate) tasks: Arc<dyn Tasks>,
    pub(crate) net: Arc<dyn Net>,
    pub(crate) metrics: Metrics,
    pub(crate) facts: watch::Sender<Facts>,
    pub(crate) members: watch::Sender<Arc<Vec<Member>>>,
    pub(crate) incompatible_peers: watch::Sender<Vec<IncompatiblePeer>>,
    pub(crate) join_state: watch::Sender<JoinState>,
    pub(crate) bootstrapping: watch::Sender<bool>,
    pub(crate) commands: mpsc::Sender<ActorCommand>,
}

pub(crate) struct Actor {
    context: ActorContext,
    table: MemberTable,
    gossip: Gossip,
    exchange_schedule: ExchangeSchedule,
    bootstrap: Bootstrap,
    timers: Timers<ActorTimer>,
    member_file: MemberFile,
    /// The facts of this node as last published.
    local_facts: Arc<Facts>,
    /// Whether rejected facts were logged.
    is_invalid_facts_logged: bool,
    started: ClockReading,
    /// Nodes to which this one still announces itself before it has joined.
    announcing: BTreeSet<ExchangeTarget>,
    probes: DuplicateProbes,
    facts_sent_at: Option<Duration>,
    suspects_notified_at: Duration,
    incarnation_raised_at: Option<Duration>,
    duplicates: BTreeMap<Id, DuplicateId>,
    incompatible_peers: IncompatiblePeers,
    /// The version skew as last logged.
    version_skews: BTreeMap<Id, String>,
    /// Whether a change of presence, or of facts, is not persisted yet.
    unsaved: [bool; 2],
    saved: Option<Duration>,
    saving: bool,
    log_limits: LogLimits,
    /// Leave messages that are acknowledged after they are persisted, because no other node may have received them.
    leave_replies: Vec<oneshot::Sender<Vec<Entry>>>,
    has_left: bool,
}

/// What wakes the task.
enum ActorEvent {
    Command(Option<ActorCommand>),
    Datagram((SocketAddr, Vec<u8>)),
    Facts,
    Time,
}

impl Actor {
    /// Runs until the node leaves; returns at once if another process has its id.
    pub(crate) async fn run(mut self, commands: mpsc::Receiver<ActorCommand>) {
        let goals = self.table.unreachable().into_iter().map(|(_, address)| ExchangeTarget::Address(address));
        let goals = goals.chain(self.context.config.join.iter().cloned().map(ExchangeTarget::Host)).collect();
        match find_duplicate(&self.context.tasks, &self.context.net, self.local_facts.node, goals).await {
            DuplicateSearch::None { peers, absent } => {
                absent.into_iter().for_each(|identity| self.table.mark_absent(identity));
                self.set_join_state(JoinState::Announcing);
                self.announcing = peers.into_iter().take(ANNOUNCE_MAX).map(ExchangeTarget::Address).collect();
                self.announcing.clone().into_iter().for_each(|goal| self.exchange_now(goal));
                self.announced(None);
            }
            DuplicateSearch::Duplicate(address) => return self.set_join_state(JoinState::Refused(address)),
        }
        self.run_loop(commands).await;
    }

    /// Publishes the join state.
    pub(crate) fn set_join_state(&self, state: JoinState) {
        self.context.join_state.send_if_modified(|old| std::mem::replace(old, state) != state);
    }

    /// Joins when all announcements have ended, with success or a timeout.
    pub(crate) fn announced(&mut self, goal: Option<&ExchangeTarget>) {
        if let Some(goal) = goal {
            self.announcing.remove(goal);
        }
        if self.announcing.is_empty() {
            self.set_join_state(JoinState::Joined);
        }
    }

    async fn run_loop(&mut self, mut commands: mpsc::Receiver<ActorCommand>) {
        let net = self.context.net.clone();
        let mut facts = self.context.facts.subscribe();
        let mut datagram = net.receive();
        let mut sleep: Option<(Duration, BoxFuture<()>)> = None;
        while !self.has_left {
            for _ in 0..BATCH {
                let Ok(command) = commands.try_recv() else { break };
                self.handle_command(command).await;
            }
            for _ in 0..BATCH {
                let Some((from, bytes)) = poll_once(&mut datagram).await else { break };
                datagram = net.receive();
                self.handle_datagram(from, &bytes);
            }
            let time = self.now().uptime;
            while let Some(timer) = self.timers.due(time) {
                self.handle_timer(timer);
            }
            self.flush();
            if self.has_left {
                break;
            }
            let next = self.timers.next_at().unwrap_or(time + TICK);
            if sleep.as_ref().is_none_or(|(until, _)| *until != next) {
                sleep = Some((next, self.context.tasks.sleep(next.saturating_sub(self.now().uptime))));
            }
            let Some((_, timer)) = &mut sleep else { break };
            let event = tokio::select! {
                biased;
                command = commands.recv() => ActorEvent::Command(command),
                received = &mut datagram => ActorEvent::Datagram(received),
                Ok(()) = facts.changed() => ActorEvent::Facts,
                () = timer => ActorEvent::Time,
            };
            match event {
                ActorEvent::Command(Some(command)) => self.handle_command(command).await,
                // The `Cluster` was dropped.
                ActorEvent::Command(None) => break,
                ActorEvent::Datagram((from, bytes)) => {
                    datagram = net.receive();
                    self.handle_datagram(from, &bytes);
                }
                ActorEvent::Facts => self.refresh_local_facts(),
                ActorEvent::Time => sleep = None,
            }
            self.flush();
        }
    }

    fn now(&self) -> ClockReading {
        clock_reading(&self.context.env)
    }

    async fn handle_command(&mut self, command: ActorCommand) {
        match command {
            ActorCommand::Exchange { entries, reply } => {
                let is_leave = entries.first().is_some_and(|entry| entry.facts.left);
                self.merge_digest(entries);
                if is_leave {
                    self.leave_replies.push(reply);
                    self.save_members();
                } else {
                    self.reply_when_probed(reply);
                }
            }
            ActorCommand::Exchanged { goal, result } => self.exchanged(&goal, result),
            ActorCommand::Probed { identity, responder } => self.claimant_probed(identity, responder),
            ActorCommand::IncompatiblePeer(peer) => {
                self.context.metrics.exchanges_incompatible.inc();
                self.note_incompatible_peer(peer);
            }
            ActorCommand::Saved(result) => {
                self.saving = false;
                if let Err(error) = result {
                    self.unsaved[0] = true;
                    log_limited!(self.log_limits, warn, %error, "cannot write members.json; retrying");
                }
            }
            ActorCommand::Forget { node, reply } => {
                let forgotten = self.table.forget(node, self.now());
                if forgotten.is_ok() {
                    self.update_liveness();
                    if let Some(entry) = self.table.entry(node, self.now()) {
                        self.broadcast(&entry);
                    }
                }
                let _ = reply.send(forgotten);
            }
            ActorCommand::Leave { reply } => self.start_leave(reply),
            ActorCommand::LeaveSent { is_acknowledged, reply } => {
                self.finish_leave().await;
                let _ = reply.send(is_acknowledged);
            }
        }
    }

    fn handle_timer(&mut self, timer: ActorTimer) {
        match timer {
            ActorTimer::Gossip(timer) => {
                self.gossip.handle_timer(timer);
                self.flush();
            }
            ActorTimer::Tick => {
                self.tick();
                self.timers.add(self.now().uptime + TICK, ActorTimer::Tick);
            }
        }
    }

    /// Periodic work.
    fn tick(&mut self) {
        self.update_liveness();
        if self.table.highest_own_incarnation > self.local_facts.incarnation && !self.table.is_own_id_duplicated() {
            self.raise_incarnation(self.table.highest_own_incarnation);
        }
        self.refresh_local_facts();
        self.incompatible_peers.expire(self.now().uptime);
        self.notify_suspects();
        self.start_due_exchanges();
        self.save_members();
    }
}

fn clock_reading(env: &Env) -> ClockReading {
    ClockReading { uptime: env.clock.uptime(), wall: Millis(env.clock.unix_ms()) }
}

/// The result of a future, if it is ready.
async fn poll_once<T>(waiting: &mut BoxFuture<T>) -> Option<T> {
    std::future::poll_fn(|context| match waiting.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
