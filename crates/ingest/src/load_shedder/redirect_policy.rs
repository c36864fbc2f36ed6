//! What a node makes of its own load and that of the others.

use bucksaw_env::Entropy;

use super::ListenerKind;
use crate::append::Durability;

/// So many addresses are named.
pub(super) const TARGETS_MAX: usize = 3;

/// What the node makes of its own load and that of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedirectPolicy {
    /// How busy this node is: 0 idle, 1 busy, 2 very busy, 3 overloaded.
    pub level: u8,
    /// Whether it may refuse: others may have to go first.
    pub may_refuse: bool,
    /// What it takes in, in bytes a second.
    pub bytes_per_second: u64,
    /// Its TCP connections.
    pub connections: u64,
    /// The other live nodes that take records in and are not about to stop.
    pub targets: Vec<RedirectTarget>,
}

/// Another node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedirectTarget {
    /// How busy it is.
    pub level: u8,
    /// What it takes in, in bytes a second.
    pub bytes_per_second: u64,
    /// Its TCP connections.
    pub connections: u64,
    /// What more it could take, in any unit, the same for all; the odds by which it is named. At least 1 counts.
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
    /// Whether connected clients have to go.
    pub(super) fn disconnects_clients(&self) -> bool {
        self.level >= 3 && self.may_refuse
    }

    /// Those that are less busy than this node.
    pub(super) fn less_loaded(&self, port: ListenerKind) -> impl Iterator<Item = &RedirectTarget> {
        self.targets.iter().filter(move |other| other.level < self.level && other.address(port).is_some())
    }

    /// Those to which a client that is there had better go.
    ///
    /// What it brings is at most five eighths of the difference between the two nodes. So if the difference is the other way
    /// round when it has gone, it is less than half of that, and nobody of its kind comes back. A node as busy as this one
    /// must not have more connections either: one that takes little because its disk is slow is sent no more than its share.
    pub(super) fn better_targets(
        &self,
        bytes_per_second: u64,
        port: ListenerKind,
    ) -> impl Iterator<Item = &RedirectTarget> {
        let fits = move |other: &&RedirectTarget| {
            let difference = u128::from(self.bytes_per_second.saturating_sub(other.bytes_per_second));
            difference > 0 && u128::from(bytes_per_second) * 8 <= difference * 5
        };
        let idle = move |other: &&RedirectTarget| {
            other.level < self.level || (other.level == self.level && other.connections <= self.connections)
        };
        self.targets.iter().filter(move |other| other.address(port).is_some()).filter(idle).filter(fits)
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

/// The addresses of some, in an order of chance, the odds by what they have to spare.
pub(super) fn sample_addresses<'a>(
    others: impl Iterator<Item = &'a RedirectTarget>,
    port: ListenerKind,
    entropy: &dyn Entropy,
) -> Vec<String> {
    // Exponential races (Efraimidis, Spirakis: "Weighted random sampling with a reservoir"): the order of -ln(u)/odds.
    let mut racing: Vec<(f64, &String)> = others
        .filter_map(|other| {
            let chance = (entropy.next_u64() as f64 / u64::MAX as f64).max(f64::MIN_POSITIVE);
            Some((-chance.ln() / other.spare_capacity.max(1) as f64, other.address(port)?))
        })
        .collect();
    racing.sort_by(|left, right| left.0.total_cmp(&right.0).then_with(|| left.1.cmp(right.1)));
    racing.into_iter().take(TARGETS_MAX).map(|(_, address)| address.clone()).collect()
}
