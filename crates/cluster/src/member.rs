//! Members as the crates above see them.

use std::net::SocketAddr;
use std::sync::Arc;

use bucksaw_record::Millis;

use crate::Facts;

/// A node with its last known facts and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its newest known facts.
    pub facts: Arc<Facts>,
    /// Its state.
    pub state: MemberState,
    /// When it entered the state, by this node's wall clock. The state does not depend on that clock.
    pub since: Millis,
    /// The address of another live process with the same id: a data directory was copied. `facts` are of the process
    /// that started last; no answer contains the records of the other.
    pub duplicate_at: Option<SocketAddr>,
    /// The same without delay, so also if the node has just moved and its old process is not yet known to have stopped. Until
    /// then, the old process may accept records that no answer finds.
    pub duplicate_suspected_at: Option<SocketAddr>,
    /// Which exchange of data the versions prevent, as a phrase that follows the node's name.
    pub version_skew: Option<String>,
}

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum MemberState {
    /// It answers probes.
    Alive,
    /// A probe failed, or it was not seen since this node started. It is treated as live for a while.
    Suspect,
    /// It does not answer, and has not left.
    Down,
    /// It has left.
    Left,
}

impl Member {
    /// Whether it is alive or suspect.
    pub fn is_live(&self) -> bool {
        matches!(self.state, MemberState::Alive | MemberState::Suspect)
    }
}

impl MemberState {
    /// All states, in their order.
    pub const ALL: [Self; 4] = [Self::Alive, Self::Suspect, Self::Down, Self::Left];

    /// The name in status and metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
