//! Asking other stores which records of a window they hold.
//!
//! ```text
//!   store                                                       store
//!     ── store/ids {from_ms, to_ms, bytes, crc}, a set of ids ──►   reads rows of blocks, no text
//!     ◄── {bytes, crc, keeps}, those of them that it holds ───────
//! ```
//! Who asks sends the ids that it holds itself, and is told which of them the other does. So an answer is never greater than
//! its question, whatever the other holds; blocks that have none of the producers asked for need not be opened; and a store
//! that holds little asks little.

use std::io;
use std::sync::Arc;

use bucksaw_doors::{Body, within};
use bucksaw_ingest::handover::{Rest, head, read_head};
use bucksaw_record::Millis;
use serde::{Deserialize, Serialize};

use super::ids::{IDS_BYTES_MAX, Ids};
use super::look::Keeps;
use super::window::Window;
use crate::linked::{Linked, late};
use crate::peers::Peer;

/// The call that asks.
pub const IDS: &str = "store/ids";

/// The question. A set follows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Question {
    /// The window, without its end.
    from_ms: u64,
    to_ms: u64,
    #[serde(flatten)]
    set: Sealed,
}

/// The answer. A set follows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Told {
    #[serde(flatten)]
    set: Sealed,
    #[serde(default)]
    keeps: Keeps,
}

/// How a set that follows is told from one that was cut off or changed on its way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Sealed {
    bytes: usize,
    crc: u32,
}

/// Which of these records of a window another store holds, and what it keeps at all. The caller knows that they are not too
/// many ([`IDS_BYTES_MAX`]).
pub(crate) async fn ask(linked: &Linked, peer: Peer, window: Window, asked: &[u8]) -> io::Result<(Ids, Keeps)> {
    let Linked { tasks, net, patience, .. } = linked;
    let question = Question { from_ms: window.from.0, to_ms: window.to.0, set: Sealed::of(asked) };
    let body = whole(&question, asked)?;
    let answer = async { read_head::<Told>(net.call(peer.address, IDS, body).await?).await };
    // What is asked for takes a while to find out, as durability does.
    let (told, rest) = within(tasks, patience.durable, answer).await.ok_or_else(late)??;
    Ok((told.set.read(linked, rest).await?, told.keeps))
}

/// Answers the questions of other stores.
#[derive(Clone, Debug)]
pub struct Held(Linked);

impl Held {
    /// Answers for a store.
    #[must_use]
    pub fn new(linked: Linked) -> Self {
        Self(linked)
    }

    /// Answers [`IDS`].
    ///
    /// # Errors
    /// What is wrong with the question.
    pub async fn ids(&self, body: Body) -> io::Result<Body> {
        let Linked { shelf, tasks, patience, .. } = &self.0;
        let (question, rest) = within(tasks, patience.answer, read_head::<Question>(body)).await.ok_or_else(late)??;
        let asked = question.set.read(&self.0, rest).await?;
        let (from, to) = (question.from_ms.min(Millis::MAX.0), question.to_ms.min(Window::ALL.to.0));
        let window = Window { from: Millis(from), to: Millis(to) };
        let shelf = Arc::clone(shelf);
        let found = self.0.away(move || Ok((shelf.held(window, &asked).encode(), shelf.keeps())));
        let (held, keeps) = found.await?;
        whole(&Told { set: Sealed::of(&held), keeps }, &held)
    }
}

fn whole(message: &impl Serialize, set: &[u8]) -> io::Result<Body> {
    Ok(Body::whole([&head(message)?[..], set].concat()))
}

impl Sealed {
    fn of(set: &[u8]) -> Self {
        Self { bytes: set.len(), crc: crc32c::crc32c(set) }
    }

    /// Reads the set, and nothing may follow it.
    async fn read(self, linked: &Linked, mut rest: Rest) -> io::Result<Ids> {
        let wrong = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        if self.bytes > IDS_BYTES_MAX {
            return Err(wrong("there are too many ids"));
        }
        let mut bytes = Vec::new();
        let most = self.bytes as u64 + 1;
        while let Some(piece) = linked.piece(&mut rest, most).await? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > self.bytes {
                return Err(wrong("more came than was told"));
            }
        }
        if bytes.len() != self.bytes || crc32c::crc32c(&bytes) != self.crc {
            return Err(wrong("the ids came damaged"));
        }
        Ids::decode(&bytes).ok_or_else(|| wrong("these are no ids"))
    }
}

#[cfg(test)]
mod tests;
