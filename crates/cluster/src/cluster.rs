//! The interface of the crate: a node's membership and its view of the cluster.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Body, Env, Net, Tasks};
use bucksaw_record::Id;
use bucksaw_rpc::call_message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot, watch};

use crate::actor::{Actor, ActorCommand, ActorContext};
use crate::exchange::ExchangeError;
use crate::router::{WeakRouter, serve};
use crate::table::ForgetError;
use crate::{ClusterVersion, Config, Facts, IncompatiblePeer, JoinState, Member, Metrics, Router, exchange};

/// Capacity of the command channel of the actor.
const COMMANDS: usize = 64;

/// The membership of a node, and its view of the cluster.
#[derive(Debug)]
pub struct Cluster {
    context: ActorContext,
    router: WeakRouter,
}

impl Cluster {
    /// Joins the cluster in a task that runs until the node leaves. The crate sets some fields of `facts` itself (see
    /// [`Facts`]). Handlers may be added to `router` before and after.
    ///
    /// # Errors
    /// If `members.json` can neither be read nor quarantined, or the facts exceed their bounds.
    pub fn start(
        config: Config,
        env: Env,
        tasks: Arc<dyn Tasks>,
        net: Arc<dyn Net>,
        facts: Facts,
        router: Router,
        metrics: Metrics,
    ) -> io::Result<Arc<Self>> {
        let (commands, received) = mpsc::channel(COMMANDS);
        let context = ActorContext {
            config,
            env,
            tasks: tasks.clone(),
            net: net.clone(),
            metrics: metrics.clone(),
            facts: watch::Sender::new(facts),
            members: watch::Sender::new(Arc::default()),
            incompatible_peers: watch::Sender::new(Vec::new()),
            join_state: watch::Sender::new(JoinState::Probing),
            bootstrapping: watch::Sender::new(false),
            commands: commands.clone(),
        };
        let actor = Actor::new(context.clone())?;
        let join_state = context.join_state.subscribe();
        router.add(exchange::EXCHANGE_CALL, move |body| answer_exchange(commands.clone(), *join_state.borrow(), body));
        tasks.spawn(Box::pin(actor.run(received)));
        let weak = router.weak();
        tasks.spawn(Box::pin(serve(tasks.clone(), net, router, metrics, context.config.calls_max)));
        Ok(Arc::new(Self { context, router: weak }))
    }

    /// All known members, including this node, by id. Down members stay until they return, leave, are forgotten, or
    /// [`Config::remember_for`] is over. Members that left stay for the same time, so that a node that left is not reported as new.
    pub fn members(&self) -> Arc<Vec<Member>> {
        self.context.members.borrow().clone()
    }

    /// Notifies of changes of [`Self::members`].
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<Vec<Member>>> {
        self.context.members.subscribe()
    }

    /// Nodes of another major version that sent packets in the last minutes; they are not members.
    pub fn incompatible_peers(&self) -> Vec<IncompatiblePeer> {
        self.context.incompatible_peers.borrow().clone()
    }

    /// Whether unknown nodes may exist: the data directory is new, a seed of [`Config::join`] was never reached, nor a node
    /// that knows all members.
    pub fn is_bootstrapping(&self) -> bool {
        *self.context.bootstrapping.borrow()
    }

    /// Whether this node has joined. Before that it must not accept records, because no other node would search it.
    pub fn join_state(&self) -> JoinState {
        *self.context.join_state.borrow()
    }

    /// Waits, for a few seconds at most, until this node has joined or is refused.
    ///
    /// # Errors
    /// The address of another process with this node's id; then this node is not a member.
    pub async fn wait_joined(&self) -> Result<(), SocketAddr> {
        let mut join_state = self.context.join_state.subscribe();
        let has_ended = |state: &JoinState| matches!(state, JoinState::Joined | JoinState::Refused(_));
        match join_state.wait_for(has_ended).await.map(|state| *state) {
            Ok(JoinState::Refused(address)) => Err(address),
            // This holds the sender, so the channel is open.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// This node's id.
    pub fn node_id(&self) -> Id {
        self.context.facts.borrow().node
    }

    /// The facts of this node.
    pub fn facts(&self) -> Facts {
        self.context.facts.borrow().clone()
    }

    /// Changes the facts of this node. They are published within a second.
    pub fn update_facts(&self, change: impl FnOnce(&mut Facts)) {
        self.context.facts.send_if_modified(|facts| {
            let before = facts.clone();
            change(facts);
            *facts != before
        });
    }

    /// The router of this node, to add handlers. The handlers are dropped when the node's tasks end.
    pub fn router(&self) -> Router {
        self.router.router()
    }

    /// Calls a member, or this node; see [`Net::call`]. The caller sets a timeout ([`bucksaw_env::with_timeout`]).
    ///
    /// # Errors
    /// Those of [`Net::call`].
    pub async fn call(&self, member: &Member, name: &str, body: Body) -> io::Result<Body> {
        self.context.net.call(member.facts.address, name, body).await
    }

    /// Calls a member with a JSON message and reads its JSON reply, of at most [`bucksaw_rpc::MESSAGE_BYTES_MAX`] bytes, within `time`.
    ///
    /// # Errors
    /// `TimedOut`; `InvalidData` for an invalid reply; otherwise the errors of [`Net::call`].
    pub async fn call_json<Q: Serialize + Sync, A: DeserializeOwned>(
        &self,
        member: &Member,
        name: &str,
        request: &Q,
        time: Duration,
    ) -> io::Result<A> {
        call_message(&self.context.tasks, &*self.context.net, member.facts.address, name, request, time).await
    }

    /// Leaves the cluster, and waits a few seconds at most for an acknowledgement. Called once, after everything else has
    /// stopped. Returns whether another node has acknowledged, or none is known; otherwise the others will mark this node as
    /// down.
    pub async fn leave(&self) -> bool {
        let (reply, left) = oneshot::channel();
        // If the actor has ended, the node has left before.
        self.context.commands.send(ActorCommand::Leave { reply }).await.is_ok() && left.await.unwrap_or(false)
    }

    /// Forgets a node that is down or has left: removes it from the tables of all nodes.
    ///
    /// # Errors
    /// [`ForgetError`].
    pub async fn forget(&self, node: Id) -> Result<(), ForgetError> {
        let (reply, forgotten) = oneshot::channel();
        self.context.commands.send(ActorCommand::Forget { node, reply }).await.map_err(|_| ForgetError::Gone)?;
        forgotten.await.map_err(|_| ForgetError::Gone)?
    }
}

/// Answers a digest exchange.
async fn answer_exchange(commands: mpsc::Sender<ActorCommand>, join_state: JoinState, body: Body) -> io::Result<Body> {
    if matches!(join_state, JoinState::Probing | JoinState::Refused(_)) {
        return Err(io::Error::other("the node is starting and does not answer exchanges yet"));
    }
    let gone = || io::Error::other("this node has left the cluster");
    let entries = match exchange::read(body).await {
        Err(ExchangeError::Version(peer)) => {
            commands.send(ActorCommand::IncompatiblePeer(peer)).await.map_err(|_| gone())?;
            // The caller's error names its own version.
            let (theirs, ours) = (peer.protocol, ClusterVersion::OWN.major);
            return Err(io::Error::other(format!("protocol version {ours}, but the request has version {theirs}")));
        }
        entries => entries?,
    };
    let (reply, digest) = oneshot::channel();
    commands.send(ActorCommand::Exchange { entries, reply }).await.map_err(|_| gone())?;
    exchange::write(&digest.await.map_err(|_| gone())?)
}
