//! A node as one node tells another of it: in datagrams, in exchanges, and in `members.json`.

use std::net::SocketAddr;
use std::time::Duration;

use bucksaw_record::Id;
use serde::{Deserialize, Serialize};

use crate::Facts;
use crate::identity::{Identity, base_incarnation};
use crate::json_text;

/// What is known of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) facts: Facts,
    /// That it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) departure: Option<Departure>,
    /// That it is there, by foca, and as whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) live: Option<LiveIdentity>,
    /// That it may not have heard of all nodes yet. A node tells it of itself, in a list of all that it knows.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) bootstrapping: bool,
}

/// For fields that are left out where they say nothing.
pub(crate) fn is_false(is: &bool) -> bool {
    !is
}

/// A node that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Departure {
    pub(crate) reason: DepartureReason,
    /// For how long, in milliseconds, by the clocks that never go back of those who saw it.
    pub(crate) elapsed_ms: u64,
}

/// Why a node is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DepartureReason {
    Down,
    Left,
    /// Somebody said that it will not come back.
    Forgotten,
}

/// A node that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LiveIdentity {
    #[serde(with = "json_text::id")]
    pub(crate) incarnation: Id,
    pub(crate) address: SocketAddr,
}

impl Departure {
    pub(crate) fn new(reason: DepartureReason, time: Duration) -> Self {
        Self { reason, elapsed_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX) }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_millis(self.elapsed_ms)
    }
}

impl Entry {
    /// Whether this could be true.
    pub(crate) fn is_valid(&self) -> bool {
        self.facts.is_valid()
            && self.live.is_none_or(|live| live.address.port() != 0 && !live.address.ip().is_unspecified())
    }

    /// Who is there, if somebody is.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let live = self.live?;
        let address = SocketAddr::new(live.address.ip(), live.address.port());
        Some(Identity { node: self.facts.node, incarnation: live.incarnation, address })
    }

    /// Whether it tells of a node at this address.
    pub(crate) fn mentions_address(&self, address: SocketAddr) -> bool {
        self.facts.address == address || self.live.is_some_and(|live| live.address == address)
    }

    /// The highest incarnation of which it tells.
    pub(crate) fn highest_incarnation(&self) -> Id {
        self.facts.incarnation.max(self.live.map_or(Id::MIN, |live| base_incarnation(live.incarnation)))
    }
}
