//! Spreads erasures to all nodes: each node exchanges its list with every live one every two seconds, and before it uses the
//! records of a node with which its last exchange is older than five.
//!
//! ```text
//!   request ──► own file ──► exchange with each member ──► acknowledged
//!                               └ a node that was not reached: not before its exchanges with others are too old to be used
//!   query ──► exchange with each live node, unless the last one is fresh ──► records of both sides are shown
//! ```
//! Invariant: once a request is acknowledged, a node that was not reached shows no record together with those of a node that
//! was, before it has the erasure.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::{Body, lock, run_blocking, with_timeout};
use bucksaw_ingest::Queue;
use bucksaw_record::Id;
use bucksaw_rpc::{call_message, message_body, read_message};
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tracing::debug;

use super::definition::{ERASURES_MAX, Erasure};
use super::erasure_book::{ErasureBook, ErasureError};
use super::progress::ReportedErasure;
use crate::peers::{Peer, PeerMember, PeerState};
use crate::store_context::{StoreContext, timed_out};

/// The call that exchanges erasures.
pub const ERASURES: &str = "store/erasures";

/// The call for the state of erasures.
pub const ERASURE_REPORT: &str = "store/erasure-report";

/// Interval of exchanges.
const EXCHANGE_PERIOD: Duration = Duration::from_secs(2);

/// Age at which an exchange is too old to be used.
const FRESH_MAX: Duration = Duration::from_secs(5);

/// Time limit of one message of an exchange; much shorter than that of the head of a reply, which an exchange may delay.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(3);

/// Time limit of a report.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two attempts to reach a member.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Erasures in one message: at most half a megabyte.
const MESSAGE_ERASURES_MAX: usize = 64;

/// Spreads the erasures of a node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ErasureSpread {
    /// Shared, because each request clones this.
    context: Arc<StoreContext>,
    queue: Arc<Queue>,
    /// The uptime at which the last exchange with each node began.
    exchanged_at: Arc<Mutex<HashMap<Id, Duration>>>,
}

/// Whether a member has an erasure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberOutcome {
    /// The member.
    pub node: Id,
    /// Why it does not have it; `None` if it does.
    pub failure: Option<String>,
}

/// The erasures of a node and their states there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// The node.
    pub node: Id,
    /// Its erasures, or why it did not report.
    pub erasures: Result<Vec<ReportedErasure>, String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct ExchangeRequest {
    /// All erasures of the caller.
    ids: Vec<Id>,
    /// Some that the other node lacks.
    add: Vec<Erasure>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct ExchangeReply {
    /// Those of the caller that the node lacks.
    lacking: Vec<Id>,
    /// Some that the caller lacks.
    add: Vec<Erasure>,
    /// Why the node did not add one.
    refused: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct ReportRequest {
    /// Only this one.
    id: Option<Id>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct ReportReply {
    erasures: Vec<ReportedErasure>,
}

impl ErasureSpread {
    /// Spreads the erasures of the store of `context`.
    pub fn new(context: StoreContext, queue: Arc<Queue>) -> Self {
        Self { context: Arc::new(context), queue, exchanged_at: Arc::default() }
    }

    /// Where the erasures are; `None` if the store has none.
    pub fn book(&self) -> Option<&Arc<ErasureBook>> {
        self.context.store.erasure_book()
    }

    /// Puts an erasure into effect on this node and on all members that can be reached. Takes a few seconds more if some
    /// cannot. Returns the outcome of each member, this node first.
    ///
    /// # Errors
    /// [`ErasureError`], when it is in effect on no node.
    pub async fn request(&self, erasure: Erasure) -> Result<Vec<MemberOutcome>, ErasureError> {
        self.add(erasure).await?;
        let (tasks, clock) = (&self.context.tasks, &self.context.env.clock);
        // A member that is not reached must not have a fresh exchange with this node.
        let deadline = clock.uptime() + FRESH_MAX + MESSAGE_TIMEOUT;
        let reach = |member: PeerMember| async move {
            loop {
                // The member table may know better by now.
                let known = self.context.peers.members().into_iter().find(|known| known.peer.node == member.peer.node);
                let member = known.unwrap_or(member);
                let failure = match member.state {
                    PeerState::Live => self.exchange(member.peer).await.err().map(|error| error.to_string()),
                    PeerState::Down => Some("the node is down".to_owned()),
                    PeerState::Left => Some("the node has left the cluster with records".to_owned()),
                };
                if failure.is_none() || clock.uptime() >= deadline {
                    return MemberOutcome { node: member.peer.node, failure };
                }
                tasks.sleep(RETRY_PAUSE).await;
            }
        };
        let own = MemberOutcome { node: self.context.node, failure: None };
        let others = join_all(self.context.peers.members().into_iter().map(reach)).await;
        Ok([own].into_iter().chain(others).collect())
    }

    async fn add(&self, erasure: Erasure) -> Result<(), ErasureError> {
        let Some(book) = self.book().cloned() else { return Err(unsupported().into()) };
        let added = run_blocking(&self.context.tasks, move || book.add(&erasure).map(drop)).await;
        added.unwrap_or_else(|| Err(io::Error::other("the erasure was not added because of a bug").into()))
    }

    /// The erasures of all members with their states, this node first; only `id`, if given.
    pub async fn report(&self, id: Option<Id>) -> Vec<MemberReport> {
        let own = MemberReport { node: self.context.node, erasures: Ok(self.own_report(id).await) };
        let (tasks, net) = (&self.context.tasks, &self.context.net);
        let others = self.context.peers.members().into_iter().map(|member| async move {
            let erasures = match member.state {
                PeerState::Live => {
                    let (address, request) = (member.peer.address, ReportRequest { id });
                    let call = call_message(tasks, &**net, address, ERASURE_REPORT, &request, REPORT_TIMEOUT);
                    call.await.map(|reply: ReportReply| reply.erasures).map_err(|error| error.to_string())
                }
                PeerState::Down => Err("the node is down".to_owned()),
                PeerState::Left => Err("the node has left the cluster with records".to_owned()),
            };
            MemberReport { node: member.peer.node, erasures }
        });
        let others = join_all(others).await;
        [own].into_iter().chain(others).collect()
    }

    async fn own_report(&self, id: Option<Id>) -> Vec<ReportedErasure> {
        let (store, queue) = (Arc::clone(&self.context.store), Arc::clone(&self.queue));
        let list = move || {
            let Some(book) = store.erasure_book() else { return Vec::new() };
            let wanted = book.erasures().into_iter().filter(|erasure| id.is_none_or(|id| erasure.id == id));
            let reported = wanted.filter_map(|erasure| {
                let status = store.erasure_status(erasure.id, &queue)?;
                Some(ReportedErasure { erasure, status })
            });
            reported.collect()
        };
        run_blocking(&self.context.tasks, list).await.unwrap_or_default()
    }

    /// Answers [`ERASURE_REPORT`].
    ///
    /// # Errors
    /// An invalid request.
    pub async fn answer_report(&self, body: Body) -> io::Result<Body> {
        let request: ReportRequest = read_message(body).await?;
        message_body(&ReportReply { erasures: self.own_report(request.id).await })
    }

    /// Answers [`ERASURES`].
    ///
    /// # Errors
    /// An invalid request, or a store without erasures.
    pub async fn answer_exchange(&self, body: Body) -> io::Result<Body> {
        let request: ExchangeRequest =
            with_timeout(&self.context.tasks, MESSAGE_TIMEOUT, read_message(body)).await.ok_or_else(timed_out)??;
        let book = self.book().cloned().ok_or_else(unsupported)?;
        let reply = run_blocking(&self.context.tasks, move || answer(&book, &request)).await;
        message_body(&reply.ok_or_else(|| io::Error::other("the erasures were not read because of a bug"))?)
    }

    /// Exchanges erasures with a node: afterwards both have those of both.
    async fn exchange(&self, peer: Peer) -> io::Result<()> {
        let book = self.book().cloned().ok_or_else(unsupported)?;
        let StoreContext { tasks, net, env, .. } = &*self.context;
        let (began, mut add) = (env.clock.uptime(), Vec::new());
        // Each message moves some in one direction at least.
        for _ in 0..2 * ERASURES_MAX.div_ceil(MESSAGE_ERASURES_MAX) + 2 {
            let request = ExchangeRequest { ids: ids_of(&book), add };
            let reply: io::Result<ExchangeReply> =
                call_message(tasks, &**net, peer.address, ERASURES, &request, MESSAGE_TIMEOUT).await;
            if reply.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Unsupported) {
                // A node of a version without erasures is not asked again before each query.
                lock(&self.exchanged_at).insert(peer.node, began);
            }
            let reply = reply?;
            if let Some(refused) = reply.refused {
                return Err(io::Error::other(refused));
            }
            for erasure in &reply.add {
                self.add(erasure.clone()).await.map_err(io::Error::other)?;
            }
            if reply.lacking.is_empty() && reply.add.len() < MESSAGE_ERASURES_MAX {
                lock(&self.exchanged_at).insert(peer.node, began);
                return Ok(());
            }
            let lacking = book.erasures().into_iter().filter(|erasure| reply.lacking.contains(&erasure.id));
            add = lacking.take(MESSAGE_ERASURES_MAX).collect();
        }
        Err(io::Error::other("the exchange of erasures does not end"))
    }

    /// Exchanges erasures with all live nodes, and waits for the next time.
    pub async fn run_step(&self) {
        if self.book().is_some() {
            join_all(self.live().into_iter().map(|peer| async move {
                if let Err(error) = self.exchange(peer).await {
                    debug!(node = %peer.node, %error, "cannot exchange erasures");
                }
            }))
            .await;
        }
        self.context.tasks.sleep(EXCHANGE_PERIOD).await;
    }

    /// Exchanges erasures with the live nodes where that is due. Called before records of this node are shown.
    pub async fn refresh(&self) {
        let due: Vec<Peer> = self.live().into_iter().filter(|peer| !self.is_fresh(peer.node)).collect();
        if self.book().is_some() {
            // A node that cannot be reached is missing from the answer.
            join_all(due.into_iter().map(|peer| self.exchange(peer))).await;
        }
    }

    /// Exchanges erasures with a node if that is due. Called before its records are requested.
    ///
    /// # Errors
    /// Of the exchange: then the records of the node are not shown.
    pub async fn refresh_with(&self, node: Id) -> io::Result<()> {
        if self.book().is_none() || self.is_fresh(node) {
            return Ok(());
        }
        // It may have ceased to be live since the caller chose it.
        let member = self.context.peers.members().into_iter().find(|member| member.peer.node == node);
        let Some(PeerMember { peer, .. }) = member else { return Ok(()) };
        match self.exchange(peer).await {
            // A node of a version without erasures has acknowledged none.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            exchanged => exchanged,
        }
    }

    fn is_fresh(&self, node: Id) -> bool {
        let began = lock(&self.exchanged_at).get(&node).copied();
        began.is_some_and(|began| self.context.env.clock.uptime().saturating_sub(began) < FRESH_MAX)
    }

    fn live(&self) -> Vec<Peer> {
        let members = self.context.peers.members().into_iter();
        members.filter(|member| member.state == PeerState::Live).map(|member| member.peer).collect()
    }
}

fn ids_of(book: &ErasureBook) -> Vec<Id> {
    book.erasures().into_iter().map(|erasure| erasure.id).collect()
}

fn answer(book: &ErasureBook, request: &ExchangeRequest) -> ExchangeReply {
    let refused = request.add.iter().take(MESSAGE_ERASURES_MAX).find_map(|erasure| book.add(erasure).err());
    let own = book.erasures();
    // An erasure that is past all retention here is not asked for.
    let is_lacking = |id: &&Id| !own.iter().any(|erasure| erasure.id == **id) && !book.is_past(**id);
    let lacking = request.ids.iter().take(ERASURES_MAX).filter(is_lacking).copied().collect();
    let add = own.iter().filter(|erasure| !request.ids.contains(&erasure.id)).take(MESSAGE_ERASURES_MAX);
    let add = add.cloned().collect();
    ExchangeReply { lacking, add, refused: refused.map(|error| error.to_string()) }
}

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "the store of this node is a database, which has no erasures")
}
