//! A node as another one sees it.

use std::net::SocketAddr;
use std::sync::Arc;

use bucksaw_record::Millis;

use crate::Facts;

/// A node, what it last told of itself, and whether it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What it told of itself, the newest that came here.
    pub facts: Arc<Facts>,
    /// Whether it is there.
    pub state: MemberState,
    /// When it came into this state, by this node's wall clock. The state itself never depends on that clock.
    pub since: Millis,
    /// Another live node with the same id, and where: a data directory was copied. `facts` are those of the one that was
    /// started last; what the other holds is in no answer.
    pub duplicate_at: Option<SocketAddr>,
    /// The same from the first moment on, so also when the node has just moved, and its old process was not found to be dead
    /// yet. Until it was, that one may have accepted records that no answer finds.
    pub duplicate_suspected_at: Option<SocketAddr>,
    /// What it and this node cannot do with each other because of their versions, as it goes on after its name.
    pub version_skew: Option<String>,
}

/// Whether a node is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberState {
    /// It answers.
    Alive,
    /// It did not answer somebody, or has not been heard of since this node started; it is treated as alive for a while.
    Suspect,
    /// It does not answer, and has not said goodbye.
    Down,
    /// It said goodbye.
    Left,
}

impl Member {
    /// Whether it is worth asking: alive, or not yet known to be down.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self.state, MemberState::Alive | MemberState::Suspect)
    }
}

impl MemberState {
    /// All states, in their order.
    pub const ALL: [Self; 4] = [Self::Alive, Self::Suspect, Self::Down, Self::Left];

    /// The word for it, the same in status and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Suspect => "suspect",
            Self::Down => "down",
            Self::Left => "left",
        }
    }
}
