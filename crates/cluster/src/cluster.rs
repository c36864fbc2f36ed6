//! What the floors above see of the cluster.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Body, BoxFuture, Env, Net, Tasks, with_timeout};
use bucksaw_record::Id;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot, watch};

use crate::actor::{Actor, ActorCommand, ActorContext};
use crate::exchange::ExchangeError;
use crate::router::{WeakRouter, serve};
use crate::table::ForgetError;
use crate::{Config, Facts, Handler, IncompatiblePeer, JoinState, Member, Metrics, Router, Version, exchange};

/// Commands on their way to the task that owns the list; who sends more waits.
const COMMANDS: usize = 64;

/// The largest answer that [`Cluster::call_json`] takes, in bytes.
pub const JSON_BYTES_MAX: usize = 4 << 20;

/// A node's view of the cluster, and its place in it.
pub struct Cluster {
    env: Env,
    tasks: Arc<dyn Tasks>,
    net: Arc<dyn Net>,
    router: WeakRouter,
    members: watch::Sender<Arc<Vec<Member>>>,
    incompatible_peers: watch::Sender<Vec<IncompatiblePeer>>,
    join_state: watch::Sender<JoinState>,
    bootstrapping: watch::Sender<bool>,
    facts: watch::Sender<Facts>,
    commands: mpsc::Sender<ActorCommand>,
}

impl Cluster {
    /// Joins, and goes on for as long as the node's tasks do. `facts` need not state what the crate itself keeps
    /// (see [`Facts`]); `router` may be added to before and after.
    ///
    /// # Errors
    /// When `members.json` can neither be read nor set aside, or the facts are beyond their bounds.
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
        let members = watch::Sender::new(Arc::default());
        let strangers = watch::Sender::new(Vec::new());
        let place = watch::Sender::new(JoinState::Probing);
        let bootstrapping = watch::Sender::new(false);
        let me = watch::Sender::new(facts);
        let calls_max = config.calls_max;
        let given = ActorContext {
            config,
            env: env.clone(),
            tasks: tasks.clone(),
            net: net.clone(),
            metrics: metrics.clone(),
            facts: me.clone(),
            members: members.clone(),
            incompatible_peers: strangers.clone(),
            join_state: place.clone(),
            bootstrapping: bootstrapping.clone(),
            commands: commands.clone(),
        };
        let actor = Actor::new(given)?;
        router.add(exchange::EXCHANGE_CALL, ExchangeHandler(commands.clone(), place.subscribe()));
        tasks.spawn(Box::pin(actor.run(received)));
        let answered = router.weak();
        tasks.spawn(Box::pin(serve(tasks.clone(), net.clone(), router, metrics, calls_max)));
        Ok(Arc::new(Self {
            env,
            tasks,
            net,
            router: answered,
            members,
            incompatible_peers: strangers,
            join_state: place,
            bootstrapping,
            facts: me,
            commands,
        }))
    }

    /// All nodes that are known, this one among them, by id. Those that are down stay until they come back, said goodbye,
    /// are forgotten, or [`Config::remember`] is over; those that left stay for as long, so that nobody takes them for new.
    #[must_use]
    pub fn members(&self) -> Arc<Vec<Member>> {
        self.members.borrow().clone()
    }

    /// Tells when [`Self::members`] changes.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<Vec<Member>>> {
        self.members.subscribe()
    }

    /// Nodes that were heard of in the last minutes and speak another major version: they are no members.
    #[must_use]
    pub fn incompatible_peers(&self) -> Vec<IncompatiblePeer> {
        self.incompatible_peers.borrow().clone()
    }

    /// Whether there may be nodes of which this one has not heard: its data directory is new, a name of [`Config::join`] was
    /// never reached, and neither was a node that knows them all.
    #[must_use]
    pub fn is_bootstrapping(&self) -> bool {
        *self.bootstrapping.borrow()
    }

    /// Whether this node has its place. Until it is taken the node must accept nothing, for no other node knows of it.
    #[must_use]
    pub fn join_state(&self) -> JoinState {
        *self.join_state.borrow()
    }

    /// Waits for a few seconds at most, until this node has its place or is refused it: where the process is that has it.
    ///
    /// # Errors
    /// The address of another process that runs with this node's id. Then this node is no member of the cluster.
    pub async fn wait_joined(&self) -> Result<(), SocketAddr> {
        let mut place = self.join_state.subscribe();
        match place
            .wait_for(|place| matches!(place, JoinState::Joined | JoinState::Refused(_)))
            .await
            .map(|place| *place)
        {
            Ok(JoinState::Refused(address)) => Err(address),
            // It holds the sender itself, so there is one.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// This node's id.
    #[must_use]
    pub fn node_id(&self) -> Id {
        self.facts.borrow().node
    }

    /// What this node tells of itself.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.facts.borrow().clone()
    }

    /// Changes what this node tells of itself. Others know within [`Config::tell_period`] and a datagram's way.
    pub fn update_facts(&self, change: impl FnOnce(&mut Facts)) {
        self.facts.send_if_modified(|facts| {
            let before = facts.clone();
            change(facts);
            *facts != before
        });
    }

    /// The calls that this node answers, to add to. They are let go of when the node's tasks end, unless a clone is kept.
    #[must_use]
    pub fn router(&self) -> Router {
        self.router.router()
    }

    /// Calls a node, or this one; see [`Net::call`]. The caller sets a limit of time ([`within`]).
    ///
    /// # Errors
    /// Those of [`Net::call`].
    pub async fn call(&self, member: &Member, name: &str, body: Body) -> io::Result<Body> {
        self.net.call(member.facts.address, name, body).await
    }

    /// Calls a node with JSON and reads its answer, of at most [`JSON_BYTES_MAX`] bytes, all within `time`.
    ///
    /// # Errors
    /// `TimedOut`; `InvalidData` when the answer is not what was expected; else those of [`Net::call`].
    pub async fn call_json<Q: Serialize + Sync, A: DeserializeOwned>(
        &self,
        member: &Member,
        name: &str,
        question: &Q,
        time: Duration,
    ) -> io::Result<A> {
        let body = Body::whole(serde_json::to_vec(question)?);
        let answer = async { self.call(member, name, body).await?.read_all(JSON_BYTES_MAX).await };
        let bytes = with_timeout(&self.tasks, time, answer).await.ok_or(io::ErrorKind::TimedOut)??;
        serde_json::from_slice(&bytes).map_err(io::Error::from)
    }

    /// At most `count` of these members, drawn at random.
    #[must_use]
    pub fn pick<'a>(&self, members: impl IntoIterator<Item = &'a Member>, count: usize) -> Vec<&'a Member> {
        crate::sampling::sample(self.env.entropy.as_ref(), members.into_iter().collect(), count)
    }

    /// Says goodbye, and waits for a few seconds at most until others have heard it. To be called once, when everything else has
    /// stopped. Whether another node has heard it, and tells the rest, or there is none; if not, they will take this one for down.
    pub async fn leave(&self) -> bool {
        let (reply, left) = oneshot::channel();
        // When it is told by nobody, the node has left before.
        self.commands.send(ActorCommand::Leave { reply }).await.is_ok() && left.await.unwrap_or(false)
    }

    /// Takes a node that is down or has left, for good, from the list, here and everywhere.
    ///
    /// # Errors
    /// [`ForgetError`].
    pub async fn forget(&self, node: Id) -> Result<(), ForgetError> {
        let (reply, forgotten) = oneshot::channel();
        self.commands.send(ActorCommand::Forget { node, reply }).await.map_err(|_| ForgetError::Gone)?;
        forgotten.await.map_err(|_| ForgetError::Gone)?
    }
}

/// Answers other nodes' comparisons of lists.
struct ExchangeHandler(mpsc::Sender<ActorCommand>, watch::Receiver<JoinState>);

impl Handler for ExchangeHandler {
    fn answer(&self, body: Body) -> BoxFuture<io::Result<Body>> {
        let (commands, place) = (self.0.clone(), *self.1.borrow());
        Box::pin(async move {
            if matches!(place, JoinState::Probing | JoinState::Refused(_)) {
                return Err(io::Error::other("the node is starting and does not answer exchanges yet"));
            }
            let gone = || io::Error::other("this node has left the cluster");
            let entries = match exchange::read(body).await {
                Err(ExchangeError::Version(stranger)) => {
                    commands.send(ActorCommand::IncompatiblePeer(stranger)).await.map_err(|_| gone())?;
                    // The other is told in words of its own place.
                    let (theirs, ours) = (stranger.protocol, Version::OWN.major);
                    return Err(io::Error::other(format!(
                        "protocol version {ours}, but the request has version {theirs}"
                    )));
                }
                entries => entries?,
            };
            let (reply, answer) = oneshot::channel();
            commands.send(ActorCommand::Exchange { entries, reply }).await.map_err(|_| gone())?;
            exchange::write(&answer.await.map_err(|_| gone())?)
        })
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cluster").field(&self.node_id()).finish()
    }
}
