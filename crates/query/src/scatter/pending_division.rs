//! Asks the stores what they hold before a search is divided among them, unless a recent search has.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Body, with_timeout};
use bucksaw_record::Id;
use bucksaw_store::ReplicaState;
use futures_util::future::join_all;
use tokio::sync::OnceCell;

use super::division::Division;
use super::peers::QueryPeer;
use super::recent_divisions::DivisionKey;
use super::replica_states::{REPLICAS, REPLICAS_REPLY_BYTES_MAX, ReplicasRequest, decode};
use super::server::QueryServer;

/// Time for a reply. A store that does not reply searches all that it has.
const REPLY_MAX: Duration = Duration::from_millis(500);

/// The division of a request, computed before the first node is asked.
#[derive(Debug)]
pub(super) struct PendingDivision {
    /// This node.
    server: Arc<QueryServer>,
    /// All nodes, this one first.
    nodes: Vec<QueryPeer>,
    /// The requested ids.
    ids: (Id, Id),
    division: OnceCell<Arc<Division>>,
}

impl PendingDivision {
    /// Of a request for a range of ids, to these nodes, of which the first is that of the server.
    pub(super) fn new(server: Arc<QueryServer>, nodes: Vec<QueryPeer>, ids: (Id, Id)) -> Self {
        Self { server, nodes, ids, division: OnceCell::new() }
    }

    /// The division. The first caller asks the stores.
    pub(super) async fn get(&self) -> &Division {
        self.division.get_or_init(|| self.divide()).await
    }

    /// The division, if it is known.
    pub(super) fn known(&self) -> Option<&Division> {
        self.division.get().map(Arc::as_ref)
    }

    /// The division is not to be used again: a node holds something else now.
    pub(super) fn forget(&self) {
        if let Some(division) = self.division.get() {
            self.server.divisions.forget(division);
        }
    }

    async fn divide(&self) -> Arc<Division> {
        let key = DivisionKey::new(self.ids, &self.nodes);
        // Before the state, so that a change in between makes this version an old one.
        let own_version = self.server.engine.store.replica_version();
        // Where nothing changes here, little changes elsewhere.
        if let Some(division) = own_version.and_then(|version| self.server.divisions.get(&key, version)) {
            return division;
        }
        let own = self.server.own_replica_state(self.ids).await;
        // A node without records cannot say whether anything changes.
        let own_version = own_version.filter(|_| own.as_ref().is_some_and(|state| !state.sums.is_empty()));
        let others = self.nodes.iter().skip(1).map(|peer| async move {
            match peer.is_live {
                true => self.state_of(peer.node).await,
                false => None,
            }
        });
        let states: Vec<_> = iter::once(own).chain(join_all(others).await).collect();
        let has_all = self.nodes.iter().zip(&states).all(|(peer, state)| state.is_some() || !peer.is_live);
        let division = Arc::new(Division::new(states, self.server.engine.config.period_bytes));
        if let Some(own_version) = own_version.filter(|_| has_all) {
            self.server.divisions.insert(key, own_version, Arc::clone(&division));
        }
        division
    }

    /// The state of another node; `None` if it does not reply in time.
    async fn state_of(&self, node: Id) -> Option<ReplicaState> {
        let read = async {
            let request = Body::whole(ReplicasRequest::encode(self.ids));
            let body = self.server.peers().call(node, REPLICAS, request).await.ok()?;
            decode(&body.read_all(REPLICAS_REPLY_BYTES_MAX).await.ok()?).ok()
        };
        with_timeout(&self.server.tasks, REPLY_MAX, read).await.flatten()
    }
}
