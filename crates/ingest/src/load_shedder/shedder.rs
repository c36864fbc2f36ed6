//! Decides which clients are accepted, redirected, refused or disconnected.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bucksaw_env::Entropy;

use super::redirect_policy::{ListenerKind, RedirectKind, RedirectPolicy, sample_addresses};
use super::token_bucket::TokenBucket;
use crate::lock::lock;
use crate::metrics::Metrics;

/// HTTP clients cannot be distinguished. They count as this many clients with equal shares of the node's rate, so a budget puts
/// the redirect header into only a few of the replies to few clients.
const HTTP_CLIENTS_ASSUMED: u64 = 16;

/// A client whose rate is below the mean client rate divided by this is not redirected: its move would not help.
const SMALL_CLIENT_DIVISOR: u64 = 4;

/// Shared by all listeners of a node; see the [module](super).
#[derive(Debug)]
pub struct LoadShedder {
    policy: Mutex<Arc<RedirectPolicy>>,
    connections: AtomicU64,
    redirectable: AtomicU64,
    /// The redirect budgets of framed and HTTP clients.
    framed_budget: TokenBucket,
    http_budget: TokenBucket,
    metrics: Metrics,
}

/// Counts a client while it is connected.
#[derive(Debug)]
pub struct ConnectionGuard<'a>(&'a AtomicU64);

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LoadShedder {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self {
            policy: Mutex::default(),
            connections: AtomicU64::new(0),
            redirectable: AtomicU64::new(0),
            framed_budget: TokenBucket::default(),
            http_budget: TokenBucket::default(),
            metrics,
        }
    }

    /// Counts a TCP connection.
    pub fn count_connection(&self) -> ConnectionGuard<'_> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        ConnectionGuard(&self.connections)
    }

    /// Counts a connection whose client understands redirects, in addition to [`Self::count_connection`].
    pub fn count_redirectable(&self) -> ConnectionGuard<'_> {
        self.redirectable.fetch_add(1, Ordering::Relaxed);
        ConnectionGuard(&self.redirectable)
    }

    /// The number of open TCP connections.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// The number of open connections whose clients understand redirects.
    #[must_use]
    pub fn redirectable_connections(&self) -> u64 {
        self.redirectable.load(Ordering::Relaxed)
    }

    /// Replaces the policy.
    pub fn set_policy(&self, policy: RedirectPolicy) {
        self.metrics.load_level.set(i64::from(policy.level));
        self.metrics.refusing.set(i64::from(policy.may_refuse && policy.level >= 2));
        *lock(&self.policy) = Arc::new(policy);
    }

    /// Replaces the redirect budgets: framed clients with this total rate may be redirected until the next call, and HTTP clients
    /// with the same.
    pub fn set_redirect_budget(&self, bytes_per_second: u64) {
        self.framed_budget.refill(bytes_per_second);
        self.http_budget.refill(bytes_per_second);
    }

    /// Whether the budget is spent although no client was redirected, by chance.
    #[must_use]
    pub fn is_budget_spent_without_redirect(&self) -> bool {
        self.framed_budget.is_spent_without_redirect()
    }

    /// The current policy.
    #[must_use]
    pub fn policy(&self) -> Arc<RedirectPolicy> {
        Arc::clone(&lock(&self.policy))
    }

    /// Decides about a new client that understands redirects: it is accepted, accepted with a suggestion, or refused in favour of
    /// the addresses.
    #[must_use]
    pub fn admit(&self, port: ListenerKind, entropy: &dyn Entropy) -> Option<(RedirectKind, Vec<String>)> {
        let policy = self.policy();
        let targets = sample_addresses(policy.less_loaded(port), port, entropy);
        let kind = match policy.level {
            2.. if policy.may_refuse => RedirectKind::Refused,
            1.. => RedirectKind::Suggested,
            0 => return None,
        };
        (!targets.is_empty()).then_some((kind, targets))
    }

    /// Whether clients that do not understand redirects are refused.
    #[must_use]
    pub fn refuses_unredirectable(&self, port: ListenerKind) -> bool {
        let policy = self.policy();
        policy.disconnects_clients() && policy.less_loaded(port).next().is_some()
    }

    /// Whether connected clients are disconnected instead of only redirected.
    #[must_use]
    pub fn disconnects_clients(&self) -> bool {
        self.policy().disconnects_clients()
    }

    /// Redirects or disconnects a connected client if that helps and the budget allows it. `bytes_per_second` is its rate; `None`
    /// if that is unknown.
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
        let policy = self.policy();
        let share = policy.bytes_per_second / clients.max(1);
        let rate = bytes_per_second.unwrap_or(share);
        let (kind, targets) = if policy.disconnects_clients() {
            (RedirectKind::Disconnected, sample_addresses(policy.less_loaded(port), port, entropy))
        } else if rate.saturating_mul(SMALL_CLIENT_DIVISOR) < share {
            return None;
        } else {
            (RedirectKind::Suggested, sample_addresses(policy.better_targets(rate, port), port, entropy))
        };
        // A redirect costs at least the mean client rate, so that few clients move at once.
        let is_redirected = !targets.is_empty() && budget.try_spend(rate.max(share).max(1), entropy);
        is_redirected.then_some((kind, targets))
    }

    /// Addresses of less loaded nodes, for HTTP replies.
    #[must_use]
    pub fn redirect_targets(&self, port: ListenerKind, entropy: &dyn Entropy) -> Vec<String> {
        sample_addresses(self.policy().less_loaded(port), port, entropy)
    }

    /// Addresses for the clients of a node that stops: the least loaded nodes, whatever their level. May be empty.
    #[must_use]
    pub fn failover_targets(&self, port: ListenerKind, entropy: &dyn Entropy) -> Vec<String> {
        let policy = self.policy();
        let reachable = || policy.targets.iter().filter(|target| target.address(port).is_some());
        let level_min = reachable().map(|target| target.level).min();
        sample_addresses(reachable().filter(|target| Some(target.level) == level_min), port, entropy)
    }

    /// Counts a redirect.
    pub fn count_redirect(&self, kind: RedirectKind) {
        self.metrics.redirected.get_or_create(&[("kind", kind.name())]).inc();
    }
}
