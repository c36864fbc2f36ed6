//! What clients hear at the door: come in, others have less to do, or go there.
//!
//! Whoever knows the other nodes advises once in a while ([`Guide::advise`]); the listeners ask here, for each client, and
//! never wait for it. Nobody is sent away who cannot be told where else to go: the advice counts for nothing while no node
//! with less to do has the same kind of port.
//!
//! | level | newcomers of the framed protocol | connected ones | lines over TCP | HTTP |
//! | --- | --- | --- | --- | --- |
//! | 0 at ease | | others are suggested to some | | others are named to some |
//! | 1 busy | others are suggested | others are suggested to some | | others are named to some |
//! | 2 very busy | refused, told of others | others are suggested to some | | others are named |
//! | 3 overloaded | refused, told of others | some are let go, told of others | new ones are closed | refused, others are named |
//!
//! Where it says "refused", "let go" and "closed", the node must be one of those that may: see [`Advice::refuses`].
//! A node that may not suggests.
//!
//! To "some" it is said within what is offered ([`Guide::offer`]): so many bytes a second may go, and no more, until it is
//! offered again. Each client that is there asks now and then whether it is its turn ([`Guide::turn`]) and says what it
//! brings, so those go whose going helps, and an offer is used up by few that bring much or by many that bring little.

mod client_rate;
mod redirect_policy;
mod token_bucket;

pub use client_rate::ClientRate;
pub use redirect_policy::{RedirectPolicy, RedirectTarget};

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bucksaw_env::Entropy;

use crate::append::Durability;
use crate::metrics::{Metrics, RedirectLabels};
use redirect_policy::sample_addresses;
use token_bucket::TokenBucket;

/// Clients of HTTP are not known apart, nor what each brings: they count as so many, which bring all that the node takes
/// in. So of the many answers to a few clients no more than some name others while an offer stands.
const HTTP_CLIENTS_ASSUMED: u64 = 16;

/// A client that brings less than one in so many parts of what clients bring on the average is let be: its going would be
/// no help.
const SMALL_CLIENT_DIVISOR: u64 = 4;

/// A kind of port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// HTTP.
    Http,
    /// Lines and frames.
    Tcp(Durability),
}

/// What is said to a client that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmissionDecision {
    /// Nothing.
    Accepted,
    /// Others, of these addresses, have less to do; it may stay.
    Suggested(Vec<String>),
    /// It may not stay; these have less to do.
    Refused(Vec<String>),
}

/// What became of a client that was told of others, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectKind {
    /// It was told, and may stay.
    Suggested,
    /// It had just come, and may not stay.
    Refused,
    /// It was there, and has to go.
    Disconnected,
}

impl RedirectKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Suggested, Self::Refused, Self::Disconnected];

    /// The word for it in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Suggested => "suggested",
            Self::Refused => "refused",
            Self::Disconnected => "disconnected",
        }
    }
}

/// See the module. Shared by all listeners of a node.
pub struct LoadShedder {
    policy: Mutex<Arc<RedirectPolicy>>,
    connections: AtomicU64,
    redirectable: AtomicU64,
    /// What may go of the clients of the framed protocol, and of HTTP.
    framed_budget: TokenBucket,
    http_budget: TokenBucket,
    metrics: Metrics,
}

/// Counts a client for as long as it is connected.
#[derive(Debug)]
pub struct ConnectionGuard<'a>(&'a AtomicU64);

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LoadShedder {
    pub(crate) fn new(metrics: Metrics) -> Self {
        let (zero, purse) = (AtomicU64::default, TokenBucket::default);
        let (advice, framed, http) = (Mutex::default(), purse(), purse());
        Self {
            policy: advice,
            connections: zero(),
            redirectable: zero(),
            framed_budget: framed,
            http_budget: http,
            metrics,
        }
    }

    /// Counts a TCP connection.
    pub fn count_connection(&self) -> ConnectionGuard<'_> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        ConnectionGuard(&self.connections)
    }

    /// Counts, besides, one whose client can be told where else to go.
    pub fn count_redirectable(&self) -> ConnectionGuard<'_> {
        self.redirectable.fetch_add(1, Ordering::Relaxed);
        ConnectionGuard(&self.redirectable)
    }

    /// TCP connections that are open.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// How many of them can be told where else to go.
    #[must_use]
    pub fn redirectable_connections(&self) -> u64 {
        self.redirectable.load(Ordering::Relaxed)
    }

    /// From now on this is said to clients.
    pub fn set_policy(&self, policy: RedirectPolicy) {
        self.metrics.load_level.set(i64::from(policy.level));
        self.metrics.refusing.set(i64::from(policy.may_refuse && policy.level >= 2));
        *self.policy.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(policy);
    }

    /// Clients that bring so many bytes a second, all together, are told of others, from now until the next offer; as many
    /// again of HTTP. What was offered before and not used is taken back.
    pub fn set_redirect_budget(&self, bytes_per_second: u64) {
        self.framed_budget.refill(bytes_per_second);
        self.http_budget.refill(bytes_per_second);
    }

    /// Whether what was offered last is used up, and yet nobody went.
    #[must_use]
    pub fn is_budget_spent_without_redirect(&self) -> bool {
        self.framed_budget.is_spent_without_redirect()
    }

    /// What was advised last.
    #[must_use]
    pub fn policy(&self) -> Arc<RedirectPolicy> {
        Arc::clone(&self.policy.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What a newcomer is told, if it can be told anything.
    #[must_use]
    pub fn admit(&self, port: ListenerKind, entropy: &dyn Entropy) -> AdmissionDecision {
        let advice = self.policy();
        let others = sample_addresses(advice.less_loaded(port), port, entropy);
        match advice.level {
            _ if others.is_empty() => AdmissionDecision::Accepted,
            2.. if advice.may_refuse => AdmissionDecision::Refused(others),
            1.. => AdmissionDecision::Suggested(others),
            0 => AdmissionDecision::Accepted,
        }
    }

    /// Whether those are refused, too, that cannot be told of others.
    #[must_use]
    pub fn refuses_unredirectable(&self, port: ListenerKind) -> bool {
        let advice = self.policy();
        advice.disconnects_clients() && advice.less_loaded(port).next().is_some()
    }

    /// Whether connected clients are let go, and not only told of others.
    #[must_use]
    pub fn disconnects_clients(&self) -> bool {
        self.policy().disconnects_clients()
    }

    /// What a client that is there is told when it is its turn: it may stay, or has to go. `brings` is what comes from it, in
    /// bytes a second; `None` when nobody knows.
    #[must_use]
    pub fn try_redirect(
        &self,
        port: ListenerKind,
        bytes_per_second: Option<u64>,
        entropy: &dyn Entropy,
    ) -> Option<(RedirectKind, Vec<String>)> {
        let (budget, clients) = match port {
            ListenerKind::Http => (&self.http_budget, HTTP_CLIENTS_ASSUMED),
            ListenerKind::Tcp(_) => (&self.framed_budget, self.redirectable_connections()),
        };
        if budget.is_empty() {
            return None;
        }
        let advice = self.policy();
        let share = advice.bytes_per_second / clients.max(1);
        let brings = bytes_per_second.unwrap_or(share);
        let (how, others) = if advice.disconnects_clients() {
            (RedirectKind::Disconnected, sample_addresses(advice.less_loaded(port), port, entropy))
        } else if brings.saturating_mul(SMALL_CLIENT_DIVISOR) < share {
            return None;
        } else {
            (RedirectKind::Suggested, sample_addresses(advice.better_targets(brings, port), port, entropy))
        };
        // A client costs what it brings, and no less than the others do, so that never many go at once.
        let goes = !others.is_empty() && budget.try_spend(brings.max(share).max(1), entropy);
        goes.then_some((how, others))
    }

    /// Those that are less busy, of which an answer of HTTP may tell whoever asks.
    #[must_use]
    pub fn redirect_targets(&self, port: ListenerKind, entropy: &dyn Entropy) -> Vec<String> {
        sample_addresses(self.policy().less_loaded(port), port, entropy)
    }

    /// Where clients may go when this node stops, however busy it is; may be nowhere.
    #[must_use]
    pub fn failover_targets(&self, port: ListenerKind, entropy: &dyn Entropy) -> Vec<String> {
        let advice = self.policy();
        let having = || advice.targets.iter().filter(|other| other.address(port).is_some());
        let least = having().map(|other| other.level).min();
        sample_addresses(having().filter(|other| Some(other.level) == least), port, entropy)
    }

    /// Counts a client that was told of others.
    pub fn count_redirect(&self, how: RedirectKind) {
        self.metrics.redirected.get_or_create(&RedirectLabels { kind: how.name() }).inc();
    }
}

impl std::fmt::Debug for LoadShedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guide").field("advice", &self.policy()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
