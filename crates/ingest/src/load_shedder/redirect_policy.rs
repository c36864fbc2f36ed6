//! The load of this node and of the nodes to which its clients may be redirected.

use bucksaw_env::Entropy;

use crate::append::Durability;

/// The maximum number of addresses in a redirect.
pub(super) const TARGETS_MAX: usize = 3;

/// The kind of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// HTTP.
    Http,
    /// Lines and the framed protocol, with this durability.
    Tcp(Durability),
}

/// What a redirect means for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectKind {
    /// It may stay.
    Suggested,
    /// It is new and is refused.
    Refused,
    /// It is connected and must leave.
    Disconnected,
}

impl RedirectKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Suggested, Self::Refused, Self::Disconnected];

    /// The name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Suggested => "suggested",
            Self::Refused => "refused",
            Self::Disconnected => "disconnected",
        }
    }
}

/// The load of this node, and the redirect targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedirectPolicy {
    /// The load level: 0 idle, 1 busy, 2 very busy, 3 overloaded.
    pub level: u8,
    /// Whether this node is within the refusal quota.
    pub may_refuse: bool,
    /// Its ingest rate, in bytes per second.
    pub bytes_per_second: u64,
    /// Its TCP connections.
    pub connections: u64,
    /// The other live ingest nodes that are not stopping.
    pub targets: Vec<RedirectTarget>,
}

/// Another node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedirectTarget {
    /// Its load level.
    pub level: u8,
    /// Its ingest rate, in bytes per second.
    pub bytes_per_second: u64,
    /// Its TCP connections.
    pub connections: u64,
    /// Its weight in the random choice of targets, at least 1: the load that it could accept, in a unit common to all nodes.
    pub spare_capacity: u64,
    /// Its HTTP address.
    pub http: Option<String>,
    /// Its TCP address for `fast`.
    pub fast: Option<String>,
    /// Its TCP address for `durable`.
    pub durable: Option<String>,
    /// Its TCP address for `bulk`.
    pub bulk: Option<String>,
}

impl RedirectPolicy {
    /// Whether connected clients are disconnected.
    pub(super) fn disconnects_clients(&self) -> bool {
        self.level >= 3 && self.may_refuse
    }

    /// Nodes with a lower load level.
    pub(super) fn less_loaded(&self, port: ListenerKind) -> impl Iterator<Item = &RedirectTarget> {
        self.targets.iter().filter(move |target| target.level < self.level && target.address(port).is_some())
    }

    /// Nodes to which a client with this rate should move.
    ///
    /// The rate is at most five eighths of the difference between the two nodes. After the move the difference is at most a
    /// quarter of that in the other direction, so the client is not sent back. A node of the same level must not have more
    /// connections: a low ingest rate may be due to a slow disk.
    pub(super) fn better_targets(
        &self,
        bytes_per_second: u64,
        port: ListenerKind,
    ) -> impl Iterator<Item = &RedirectTarget> {
        let fits = move |target: &&RedirectTarget| {
            let difference = u128::from(self.bytes_per_second.saturating_sub(target.bytes_per_second));
            difference > 0 && u128::from(bytes_per_second) * 8 <= difference * 5
        };
        let is_idle = move |target: &&RedirectTarget| {
            target.level < self.level || (target.level == self.level && target.connections <= self.connections)
        };
        self.targets.iter().filter(move |target| target.address(port).is_some()).filter(is_idle).filter(fits)
    }
}

impl RedirectTarget {
    pub(super) fn address(&self, port: ListenerKind) -> Option<&String> {
        match port {
            ListenerKind::Http => self.http.as_ref(),
            ListenerKind::Tcp(Durability::Fast) => self.fast.as_ref(),
            ListenerKind::Tcp(Durability::Durable) => self.durable.as_ref(),
            ListenerKind::Tcp(Durability::Bulk) => self.bulk.as_ref(),
        }
    }
}

/// The addresses of some nodes in random order, weighted by spare capacity.
pub(super) fn sample_addresses<'a>(
    targets: impl Iterator<Item = &'a RedirectTarget>,
    port: ListenerKind,
    entropy: &dyn Entropy,
) -> Vec<String> {
    // Weighted sampling by exponential races (Efraimidis, Spirakis: "Weighted random sampling with a reservoir"): the order
    // of -ln(u)/weight.
    let mut racing: Vec<(f64, &String)> = targets
        .filter_map(|target| {
            let chance = (entropy.next_u64() as f64 / u64::MAX as f64).max(f64::MIN_POSITIVE);
            Some((-chance.ln() / target.spare_capacity.max(1) as f64, target.address(port)?))
        })
        .collect();
    racing.sort_by(|left, right| left.0.total_cmp(&right.0).then_with(|| left.1.cmp(right.1)));
    racing.into_iter().take(TARGETS_MAX).map(|(_, address)| address.clone()).collect()
}
