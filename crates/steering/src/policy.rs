//! The load of this node and its peers, and the peers to which a client may be redirected.

use bucksaw_env::Entropy;
use bucksaw_record::Id;

/// The maximum number of addresses in a redirect.
pub(crate) const TARGETS_MAX: usize = 3;

/// The kind of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// HTTP.
    Http,
    /// Lines and the framed protocol, with durability `fast`.
    Fast,
    /// The same, `durable`.
    Durable,
    /// The same, `bulk`.
    Bulk,
}

/// What a redirect means for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum RedirectKind {
    /// The client may stay.
    Suggested,
    /// The client is new and is refused.
    Refused,
    /// The client is connected and must leave.
    Disconnected,
}

impl RedirectKind {
    /// The name in metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A redirect of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectDecision {
    /// Whether the client may stay.
    pub kind: RedirectKind,
    /// Addresses of other nodes, best first.
    pub targets: Vec<String>,
}

/// The load of a node, as published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLoad {
    /// The load level: 0 idle, 1 busy, 2 very busy, 3 overloaded.
    pub level: u8,
    /// Ingest rate, in bytes per second.
    pub bytes_per_second: u64,
    /// TCP connections.
    pub connections: u64,
}

/// Another live ingest node that is not stopping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestPeer {
    /// Its id.
    pub node: Id,
    /// Its published load.
    pub load: NodeLoad,
    /// Its ports for clients, as `HOST:PORT`.
    pub addresses: Vec<(ListenerKind, String)>,
}

impl IngestPeer {
    fn address(&self, port: ListenerKind) -> Option<&String> {
        self.addresses.iter().find(|(kind, _)| *kind == port).map(|(_, address)| address)
    }
}

/// What the decisions about single clients are based on. Replaced once a second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedirectPolicy {
    /// The load of this node.
    pub load: NodeLoad,
    /// Whether this node is within the refusal quota.
    pub may_refuse: bool,
    /// The mean ingest rate of all ingest nodes, in bytes per second.
    pub mean_bytes_per_second: u64,
    /// The other ingest nodes.
    pub peers: Vec<IngestPeer>,
}

impl RedirectPolicy {
    /// Whether the node refuses new clients for which it has targets.
    pub fn is_refusing(&self) -> bool {
        self.load.level >= 2 && self.may_refuse
    }

    /// Whether the node disconnects clients, instead of only suggesting others.
    pub(crate) fn is_disconnecting(&self) -> bool {
        self.load.level >= 3 && self.may_refuse
    }

    /// Peers of a lower level.
    pub(crate) fn less_loaded(&self, port: ListenerKind) -> impl Iterator<Item = &IngestPeer> {
        self.peers.iter().filter(move |peer| peer.load.level < self.load.level && peer.address(port).is_some())
    }

    /// Peers to which a client with this rate should move: the rate is at most five eighths of the difference to the peer.
    ///
    /// A peer of the same level must not have more connections: a low ingest rate may be due to a slow disk.
    pub(crate) fn better_targets(
        &self,
        bytes_per_second: u64,
        port: ListenerKind,
    ) -> impl Iterator<Item = &IngestPeer> {
        self.peers.iter().filter(move |peer| {
            let difference = u128::from(self.load.bytes_per_second.saturating_sub(peer.load.bytes_per_second));
            let fits = difference > 0 && u128::from(bytes_per_second) * 8 <= difference * 5;
            let is_idle = peer.load.level < self.load.level
                || (peer.load.level == self.load.level && peer.load.connections <= self.load.connections);
            fits && is_idle && peer.address(port).is_some()
        })
    }

    /// The peers of the lowest level.
    pub(crate) fn least_loaded(&self, port: ListenerKind) -> impl Iterator<Item = &IngestPeer> {
        let listening = move || self.peers.iter().filter(move |peer| peer.address(port).is_some());
        let level = listening().map(|peer| peer.load.level).min();
        listening().filter(move |peer| Some(peer.load.level) == level)
    }

    /// The addresses of at most [`TARGETS_MAX`] of these peers in random order, weighted by spare capacity: the distance below
    /// the mean rate, plus a sixteenth of the mean so that every peer has some weight.
    pub(crate) fn sample_addresses<'a>(
        &self,
        peers: impl Iterator<Item = &'a IngestPeer>,
        port: ListenerKind,
        entropy: &dyn Entropy,
    ) -> Vec<String> {
        // Weighted sampling by exponential races (Efraimidis, Spirakis: "Weighted random sampling with a reservoir"): the order
        // of -ln(u)/weight.
        let mean = self.mean_bytes_per_second;
        let mut racing: Vec<(f64, &String)> = peers
            .filter_map(|peer| {
                let chance = (entropy.next_u64() as f64 / u64::MAX as f64).max(f64::MIN_POSITIVE);
                let spare = mean.saturating_sub(peer.load.bytes_per_second).saturating_add(mean / 16 + 1);
                Some((-chance.ln() / spare as f64, peer.address(port)?))
            })
            .collect();
        racing.sort_by(|left, right| left.0.total_cmp(&right.0).then_with(|| left.1.cmp(right.1)));
        racing.into_iter().take(TARGETS_MAX).map(|(_, address)| address.clone()).collect()
    }
}
