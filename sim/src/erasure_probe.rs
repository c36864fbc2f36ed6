//! Erases some records of the clients during a run, on all nodes that can be reached, and again until all have it.
//!
//! From then on no answer of a node that has the erasure may have such a record, whichever nodes it asks; in the end no file may.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bucksaw_node::Node;
use bucksaw_record::{Expr, Id, Millis, Producer};
use bucksaw_store::erasure::{Erasure, MemberOutcome};

use crate::erased_records::{EXPRESSION, is_erased};
use crate::ledger::Violation;
use crate::sim_cluster::SimCluster;

/// Time after which a request is taken for lost with its node.
const REQUEST_MAX: Duration = Duration::from_secs(60);

/// Interval of requests until all nodes have the erasure.
const RETRY_INTERVAL: Duration = Duration::from_secs(15);

/// Requests erasures.
#[derive(Debug)]
pub(crate) struct ErasureProbe {
    due: Duration,
    request: Option<ErasureRequest>,
}

#[derive(Debug)]
struct ErasureRequest {
    started: Duration,
    erasure: Erasure,
    /// The outcomes of all members; `None` if the request failed.
    outcome: Arc<OnceLock<Option<Vec<MemberOutcome>>>>,
}

impl ErasureProbe {
    /// Requests an erasure at this time.
    pub(crate) fn at(due: Duration) -> Self {
        Self { due, request: None }
    }

    /// Whether a node is to be given to [`Self::request`].
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        self.request.is_none() && now >= self.due
    }

    /// Sends a request to a node that is up.
    pub(crate) fn request(&mut self, now: Duration, cluster: &SimCluster, at: usize) {
        let Some((machine, node)) =
            cluster.machines.get(at).and_then(|machine| Some((machine, machine.node()?.clone())))
        else {
            return;
        };
        let Some(erasure) = new_erasure(&node) else { return };
        let outcome = Arc::new(OnceLock::new());
        let (requested, set) = (erasure.clone(), Arc::clone(&outcome));
        machine.host.spawn(async move {
            let outcomes = node.erasures.request(requested).await.ok();
            let _ = set.set(outcomes);
        });
        self.request = Some(ErasureRequest { started: now, erasure, outcome });
    }

    /// Notes the nodes that have acknowledged the erasure.
    pub(crate) fn update(&mut self, now: Duration, cluster: &mut SimCluster) {
        let Some(request) = &self.request else { return };
        match request.outcome.get() {
            None if now < request.started + REQUEST_MAX => return,
            None | Some(None) => {}
            Some(Some(outcomes)) => {
                let reached = outcomes.iter().filter(|outcome| outcome.failure.is_none());
                for node in reached.map(|outcome| outcome.node) {
                    let erased_before = cluster.erased_before.entry(node).or_insert(request.erasure.to);
                    *erased_before = (*erased_before).max(request.erasure.to);
                }
                if outcomes.iter().all(|outcome| outcome.failure.is_none()) {
                    cluster.erasure = Some(request.erasure.clone());
                    self.due = Duration::MAX;
                }
            }
        }
        self.due = self.due.max(now + RETRY_INTERVAL);
        self.request = None;
    }
}

fn new_erasure(node: &Node) -> Option<Erasure> {
    let now = Millis(node.env.clock.unix_ms());
    let id = Id::new(now, Producer::random(node.env.entropy.next_u64()), 0);
    let expr = Expr::parse(EXPRESSION.as_bytes()).ok()?;
    Erasure::new(id, &expr, (Millis(0), now.saturating_add(1)), None).ok()
}

/// Whether all nodes have completed the erasure that all have.
pub(crate) fn is_complete(cluster: &SimCluster) -> bool {
    incomplete(cluster).is_empty()
}

fn incomplete(cluster: &SimCluster) -> Vec<String> {
    let Some(erasure) = &cluster.erasure else { return vec!["not acknowledged by all nodes".to_owned()] };
    let left = cluster.nodes().filter_map(|(at, node)| {
        let status = node.store.erasure_status(erasure.id, &node.queue);
        let is_done = status.as_ref().is_some_and(|status| status.is_done || !status.damaged.is_empty());
        (!is_done).then(|| format!("n{at}: {status:?}"))
    });
    left.collect()
}

/// The final checks: the erasure is complete, and no file has an erased record.
pub(crate) fn check(cluster: &SimCluster) -> Vec<Violation> {
    let mut violations: Vec<Violation> =
        incomplete(cluster).into_iter().map(|what| Violation::Stuck(format!("an erasure is {what}"))).collect();
    let Some(erasure) = &cluster.erasure else { return violations };
    for (at, node) in cluster.nodes() {
        let status = node.store.erasure_status(erasure.id, &node.queue).unwrap_or_default();
        // A damaged file keeps what it has; it is reported.
        if !status.damaged.is_empty() {
            continue;
        }
        for (id, line) in
            cluster.read_machine(at).into_iter().flatten().flat_map(|part| part.records().collect::<Vec<_>>())
        {
            if is_erased(&line) && id.time() < erasure.to {
                violations.push(Violation::Erased(id));
            }
        }
    }
    violations
}
