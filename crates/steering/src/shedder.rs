//! Decides about single clients, by the current policy and budget.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::{Entropy, GaugeGuard, lock};
use prometheus_client::metrics::gauge::Gauge;

use crate::client_rate::ClientRate;
use crate::metrics::Metrics;
use crate::policy::{ListenerKind, RedirectDecision, RedirectKind, RedirectPolicy};
use crate::token_bucket::TokenBucket;

/// HTTP clients cannot be distinguished. They count as this many clients with equal shares of the node's rate, so a budget puts
/// the redirect header into only a few replies.
const HTTP_CLIENTS_ASSUMED: u64 = 16;

/// A client whose rate is below the mean client rate divided by this is not redirected: its move would not help.
const SMALL_CLIENT_DIVISOR: u64 = 4;

/// From this load level on every HTTP reply names less loaded nodes.
const HTTP_REDIRECT_LEVEL_MIN: u8 = 2;

/// Decides about the clients of a node; shared by its listeners, which never wait for it. See the [crate](crate).
#[derive(Debug)]
pub struct LoadShedder {
    policy: Mutex<Arc<RedirectPolicy>>,
    connections: Gauge,
    redirectable: Gauge,
    framed_budget: TokenBucket,
    http_budget: TokenBucket,
    metrics: Metrics,
}

impl LoadShedder {
    /// A load shedder that accepts all clients until it has a policy.
    pub fn new(metrics: Metrics) -> Self {
        Self {
            policy: Mutex::default(),
            connections: Gauge::default(),
            redirectable: Gauge::default(),
            framed_budget: TokenBucket::default(),
            http_budget: TokenBucket::default(),
            metrics,
        }
    }

    /// Counts a TCP connection.
    pub fn count_connection(&self) -> GaugeGuard {
        GaugeGuard::new(&self.connections)
    }

    /// Counts a connection whose client understands redirects, in addition to [`Self::count_connection`].
    pub fn count_redirectable(&self) -> GaugeGuard {
        GaugeGuard::new(&self.redirectable)
    }

    /// The number of open TCP connections.
    pub fn connections(&self) -> u64 {
        self.connections.get().unsigned_abs()
    }

    /// The number of open connections whose clients understand redirects.
    pub fn redirectable_connections(&self) -> u64 {
        self.redirectable.get().unsigned_abs()
    }

    /// The current policy.
    pub fn policy(&self) -> Arc<RedirectPolicy> {
        Arc::clone(&lock(&self.policy))
    }

    /// Replaces the policy.
    pub fn set_policy(&self, policy: RedirectPolicy) {
        self.metrics.load_level.set(i64::from(policy.load.level));
        self.metrics.refusing.set(i64::from(policy.is_refusing()));
        *lock(&self.policy) = Arc::new(policy);
    }

    /// Replaces the redirect budgets: framed clients with this total rate may be redirected until the next call, and HTTP
    /// clients with the same.
    pub fn set_redirect_budget(&self, bytes_per_second: u64) {
        self.framed_budget.refill(bytes_per_second);
        self.http_budget.refill(bytes_per_second);
    }

    pub(crate) fn is_budget_wasted(&self) -> bool {
        self.framed_budget.is_wasted()
    }

    /// Decides about a new client that understands redirects; `None` accepts it without a suggestion.
    #[must_use]
    pub fn admit(&self, port: ListenerKind, entropy: &dyn Entropy) -> Option<RedirectDecision> {
        let policy = self.policy();
        let targets = policy.sample_addresses(policy.less_loaded(port), port, entropy);
        let kind = if policy.is_refusing() { RedirectKind::Refused } else { RedirectKind::Suggested };
        self.redirect(kind, targets)
    }

    /// Whether clients that do not understand redirects are refused.
    pub fn refuses_unredirectable(&self, port: ListenerKind) -> bool {
        let policy = self.policy();
        policy.is_disconnecting() && policy.less_loaded(port).next().is_some()
    }

    /// Counts a client that was refused because of [`Self::refuses_unredirectable`].
    pub fn count_refused(&self) {
        self.metrics.count_redirect(RedirectKind::Refused);
    }

    /// Decides about a connected client, given the total `bytes` received from it. Called at [jittered](crate::jittered)
    /// intervals.
    #[must_use]
    pub fn check_client(
        &self,
        client: &mut ClientRate,
        now: Duration,
        bytes: u64,
        port: ListenerKind,
        entropy: &dyn Entropy,
    ) -> Option<RedirectDecision> {
        let bytes_per_second = client.sample(now, bytes);
        let policy = self.policy();
        if !policy.is_disconnecting() && !client.may_be_redirected(now) {
            return None;
        }
        let decision = self.spend_budget(&policy, port, Some(bytes_per_second), entropy)?;
        client.record_suggestion(now);
        Some(decision)
    }

    /// Less loaded nodes for the header of one HTTP reply; mostly none at a low level.
    pub fn http_reply_targets(&self, entropy: &dyn Entropy) -> Vec<String> {
        let (policy, port) = (self.policy(), ListenerKind::Http);
        if policy.load.level >= HTTP_REDIRECT_LEVEL_MIN {
            return policy.sample_addresses(policy.less_loaded(port), port, entropy);
        }
        self.spend_budget(&policy, port, None, entropy).map(|decision| decision.targets).unwrap_or_default()
    }

    /// The redirect of a client of a node that stops: the least loaded nodes, regardless of their level.
    #[must_use]
    pub fn failover(&self, port: ListenerKind, entropy: &dyn Entropy) -> Option<RedirectDecision> {
        let policy = self.policy();
        let targets = policy.sample_addresses(policy.least_loaded(port), port, entropy);
        self.redirect(RedirectKind::Disconnected, targets)
    }

    /// Redirects a connected client if that helps and the budget allows it. A rate of `None` is unknown.
    fn spend_budget(
        &self,
        policy: &RedirectPolicy,
        port: ListenerKind,
        bytes_per_second: Option<u64>,
        entropy: &dyn Entropy,
    ) -> Option<RedirectDecision> {
        let (budget, clients) = match port {
            ListenerKind::Http => (&self.http_budget, HTTP_CLIENTS_ASSUMED),
            _ => (&self.framed_budget, self.redirectable_connections()),
        };
        if budget.is_empty() {
            return None;
        }
        let mean = policy.load.bytes_per_second / clients.max(1);
        let rate = bytes_per_second.unwrap_or(mean);
        let (kind, targets) = if policy.is_disconnecting() {
            (RedirectKind::Disconnected, policy.sample_addresses(policy.less_loaded(port), port, entropy))
        } else if rate.saturating_mul(SMALL_CLIENT_DIVISOR) < mean {
            return None;
        } else {
            (RedirectKind::Suggested, policy.sample_addresses(policy.better_targets(rate, port), port, entropy))
        };
        // A redirect costs at least the mean client rate, so that few clients move at once.
        if targets.is_empty() || !budget.try_spend(rate.max(mean).max(1), entropy) {
            return None;
        }
        self.redirect(kind, targets)
    }

    fn redirect(&self, kind: RedirectKind, targets: Vec<String>) -> Option<RedirectDecision> {
        if targets.is_empty() {
            return None;
        }
        self.metrics.count_redirect(kind);
        Some(RedirectDecision { kind, targets })
    }
}
