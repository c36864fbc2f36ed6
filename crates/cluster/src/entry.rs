//! Entries: members as sent in datagrams and digests, and as persisted in `members.json`.

use std::net::SocketAddr;
use std::time::Duration;

use bucksaw_env::to_millis;
use bucksaw_record::Id;
use serde::{Deserialize, Serialize};

use crate::Facts;
use crate::identity::{Identity, base_incarnation};

/// A member with its facts and state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) facts: Facts,
    /// Set if it is not live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) departure: Option<Departure>,
    /// Set if it is live: its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) live: Option<LiveIdentity>,
    /// In the first entry of a digest: the sender's list of nodes may be incomplete.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) bootstrapping: bool,
}

/// Omits false fields.
pub(crate) fn is_false(is: &bool) -> bool {
    !is
}

/// Why and since when a member is not live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Departure {
    pub(crate) reason: DepartureReason,
    /// Its age in milliseconds, by monotonic clocks.
    pub(crate) elapsed_ms: u64,
}

/// Why a member is not live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DepartureReason {
    Down,
    Left,
    /// An operator declared that it will not return.
    Forgotten,
}

/// The process of a live member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LiveIdentity {
    pub(crate) incarnation: Id,
    pub(crate) address: SocketAddr,
}

impl Departure {
    pub(crate) fn new(reason: DepartureReason, time: Duration) -> Self {
        Self { reason, elapsed_ms: to_millis(time) }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_millis(self.elapsed_ms)
    }
}

impl Entry {
    /// Whether every field is valid.
    pub(crate) fn is_valid(&self) -> bool {
        self.facts.is_valid()
            && self.live.is_none_or(|live| live.address.port() != 0 && !live.address.ip().is_unspecified())
    }

    /// The live process, if any.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let live = self.live?;
        let address = SocketAddr::new(live.address.ip(), live.address.port());
        Some(Identity { node: self.facts.node, incarnation: live.incarnation, address })
    }

    /// Whether it names this address.
    pub(crate) fn mentions_address(&self, address: SocketAddr) -> bool {
        self.facts.address == address || self.live.is_some_and(|live| live.address == address)
    }

    /// The highest incarnation that it names.
    pub(crate) fn highest_incarnation(&self) -> Id {
        self.facts.incarnation.max(self.live.map_or(Id::MIN, |live| base_incarnation(live.incarnation)))
    }
}
