//! Asking another store whether it has walked over all that it holds.
//!
//! ```text
//!   store                                                     store
//!     ── store/walked {boot, begin, from_ms, to_ms} ──►          begins a pass, if `begin` are not begun
//!     ◄── {boot, begun, clean, damaged, since_ms} ──────
//! ```
//! Passes are numbered from 1 since the store was started, and `boot` is another one at each start. So who asks knows a pass that
//! began after its question by its number, and no clock is compared with another.
//! What a store has let go of for want of room no pass looks for, so about that time its passes say nothing.

use std::io;

use bucksaw_doors::{Body, within};
use bucksaw_record::Millis;
use serde::{Deserialize, Serialize};

use super::window::Window;
use crate::linked::{Linked, late};
use crate::peers::Peer;

/// The call that asks.
pub const WALKED: &str = "store/walked";

/// More than a question or an answer has.
const BYTES_MAX: usize = 4 << 10;

/// The question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Question {
    /// The start of the store to which `begin` belongs; 0 when it is not known.
    pub(crate) boot: u64,
    /// The number of passes that are to be begun.
    pub(crate) begin: u64,
    /// The time about which it is asked, without its end.
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
}

/// The answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Told {
    /// Another number at each start.
    pub(crate) boot: u64,
    /// Passes that were begun since.
    pub(crate) begun: u64,
    /// The last pass that ended with nothing left that has too few copies; 0 when none did.
    pub(crate) clean: u64,
    /// Whether anything of that time is damaged there, and was not made good.
    pub(crate) damaged: bool,
    /// Records of an earlier time were let go for want of room. Without the field, records of any time may have been.
    #[serde(default = "never")]
    pub(crate) since_ms: u64,
}

fn never() -> u64 {
    u64::MAX
}

impl Told {
    /// What it says about damage of records that begin at a time.
    pub(crate) fn about(self, low: Millis) -> Self {
        let clean = if self.since_ms <= low.0 { self.clean } else { 0 };
        Self { clean, ..self }
    }
}

impl Question {
    pub(crate) fn window(self) -> Window {
        Window { from: Millis(self.from_ms.min(Millis::MAX.0)), to: Millis(self.to_ms.min(Window::ALL.to.0)) }
    }
}

/// Asks another store.
pub(crate) async fn ask(linked: &Linked, peer: Peer, question: Question) -> io::Result<Told> {
    let body = Body::whole(serde_json::to_vec(&question)?);
    let answer = async { linked.net.call(peer.address, WALKED, body).await?.read_all(BYTES_MAX).await };
    let bytes = within(&linked.tasks, linked.patience.answer, answer).await.ok_or_else(late)??;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Reads a question, within its time.
pub(crate) async fn read(linked: &Linked, body: Body) -> io::Result<Question> {
    let bytes = within(&linked.tasks, linked.patience.answer, body.read_all(BYTES_MAX)).await.ok_or_else(late)??;
    Ok(serde_json::from_slice(&bytes)?)
}
