//! What the floors above see of the cluster.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_doors::{Body, Doors, Net, Tasks, within};
use bucksaw_record::Id;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::{Config, Facts, Member, Metrics, Router};

/// The largest answer that [`Cluster::call_json`] takes, in bytes.
pub const JSON_BYTES_MAX: usize = 4 << 20;

/// A node's view of the cluster, and its place in it.
pub struct Cluster {
    doors: Doors,
    tasks: Arc<dyn Tasks>,
    net: Arc<dyn Net>,
    router: Router,
    members: watch::Sender<Arc<Vec<Member>>>,
    me: watch::Sender<Facts>,
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
}

impl Cluster {
    /// Joins, and goes on for as long as the node's tasks do. `facts` need not state what the crate itself keeps
    /// (see [`Facts`]); `router` may be added to before and after.
    ///
    /// # Errors
    /// When `members.json` can neither be read nor set aside, or the facts are beyond their bounds.
    pub fn start(
        config: Config,
        doors: Doors,
        tasks: Arc<dyn Tasks>,
        net: Arc<dyn Net>,
        facts: Facts,
        router: Router,
        metrics: Metrics,
    ) -> io::Result<Arc<Self>> {
        let _ = (config, metrics);
        let members = watch::Sender::new(Arc::new(Vec::new()));
        Ok(Arc::new(Self { doors, tasks, net, router, members, me: watch::Sender::new(facts) }))
    }

    /// All nodes that are known, this one among them, by id. Those that are down stay until they come back, said goodbye,
    /// are forgotten, or [`Config::remember`] is over; those that left stay for as long, so that nobody takes them for new.
    #[must_use]
    pub fn members(&self) -> Arc<Vec<Member>> {
        self.members.borrow().clone()
    }

    /// Tells when [`Self::members`] changes.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<Arc<Vec<Member>>> {
        self.members.subscribe()
    }

    /// This node's id.
    #[must_use]
    pub fn node(&self) -> Id {
        self.me.borrow().node
    }

    /// What this node tells of itself.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.me.borrow().clone()
    }

    /// Changes what this node tells of itself. Others know within [`Config::tell_period`] and a datagram's way.
    pub fn update(&self, change: impl FnOnce(&mut Facts)) {
        self.me.send_if_modified(|facts| {
            let before = facts.clone();
            change(facts);
            *facts != before
        });
    }

    /// The calls that this node answers, to add to.
    #[must_use]
    pub fn router(&self) -> &Router {
        &self.router
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
        let bytes = within(&self.tasks, time, answer).await.ok_or(io::ErrorKind::TimedOut)??;
        serde_json::from_slice(&bytes).map_err(io::Error::from)
    }

    /// At most `count` of these members, drawn at random.
    #[must_use]
    pub fn pick<'a>(&self, members: impl IntoIterator<Item = &'a Member>, count: usize) -> Vec<&'a Member> {
        crate::pick::some(self.doors.entropy.as_ref(), members.into_iter().collect(), count)
    }

    /// Says goodbye, and waits a moment until others have heard it. To be called once, when everything else has stopped.
    pub async fn leave(&self) {}

    /// Takes a node that is down, for good, from the list, here and everywhere.
    ///
    /// # Errors
    /// [`ForgetError`].
    pub fn forget(&self, node: Id) -> Result<(), ForgetError> {
        let _ = node;
        Err(ForgetError::Unknown)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cluster").field(&self.node()).finish()
    }
}
