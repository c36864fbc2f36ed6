//! Asking other stores which records of a window they hold.
//!
//! ```text
//!   store                                                       store
//!     ── store/ids {from_ms, to_ms, bytes, crc}, a set of ids ──►   reads rows of blocks, no text
//!     ◄── {bytes, crc, retention}, those of them that it holds ───────
//! ```
//! Who asks sends the ids that it holds itself, and is told which of them the other does. So an answer is never greater than
//! its question, whatever the other holds; blocks that have none of the producers asked for need not be opened; and a store
//! that holds little asks little.

use std::io;
use std::sync::Arc;

use bucksaw_env::{Body, with_timeout};
use bucksaw_record::Millis;
use bucksaw_rpc::{BodyRemainder, encode_head, read_head};
use serde::{Deserialize, Serialize};

use super::id_set::{IDS_BYTES_MAX, IdSet};
use super::local_scan::RetentionBounds;
use super::time_range::TimeRange;
use crate::peers::Peer;
use crate::replication_context::{ReplicationContext, timed_out};

/// The call that asks.
pub const HELD_IDS: &str = "store/held-ids";

/// The question. A set follows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct HeldIdsRequest {
    /// The window, without its end.
    from_ms: u64,
    to_ms: u64,
    #[serde(flatten)]
    set: IdSetChecksum,
}

/// The answer. A set follows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct HeldIdsReply {
    #[serde(flatten)]
    set: IdSetChecksum,
    #[serde(default)]
    retention: RetentionBounds,
}

/// How a set that follows is told from one that was cut off or changed on its way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct IdSetChecksum {
    bytes: usize,
    crc: u32,
}

/// Which of these records of a window another store holds, and what it keeps at all. The caller knows that they are not too
/// many ([`IDS_BYTES_MAX`]).
pub(crate) async fn request_held_ids(
    context: &ReplicationContext,
    peer: Peer,
    range: TimeRange,
    asked: &[u8],
) -> io::Result<(IdSet, RetentionBounds)> {
    let ReplicationContext { tasks, net, timeouts, .. } = context;
    let question = HeldIdsRequest { from_ms: range.from.0, to_ms: range.to.0, set: IdSetChecksum::of(asked) };
    let body = message_with_set(&question, asked)?;
    let answer = async { read_head::<HeldIdsReply>(net.call(peer.address, HELD_IDS, body).await?).await };
    // What is asked for takes a while to find out, as durability does.
    let (told, rest) = with_timeout(tasks, timeouts.durable, answer).await.ok_or_else(timed_out)??;
    Ok((told.set.read(context, rest).await?, told.retention))
}

/// Answers the questions of other stores.
#[derive(Clone, Debug)]
pub struct HeldIdsServer(ReplicationContext);

impl HeldIdsServer {
    /// Answers for a store.
    #[must_use]
    pub fn new(linked: ReplicationContext) -> Self {
        Self(linked)
    }

    /// Answers [`IDS`].
    ///
    /// # Errors
    /// What is wrong with the question.
    pub async fn ids(&self, body: Body) -> io::Result<Body> {
        let ReplicationContext { store, tasks, timeouts, .. } = &self.0;
        let (question, rest) =
            with_timeout(tasks, timeouts.answer, read_head::<HeldIdsRequest>(body)).await.ok_or_else(timed_out)??;
        let asked = question.set.read(&self.0, rest).await?;
        let (from, to) = (question.from_ms.min(Millis::MAX.0), question.to_ms.min(TimeRange::ALL.to.0));
        let range = TimeRange { from: Millis(from), to: Millis(to) };
        let store = Arc::clone(store);
        let found = self.0.run_blocking(move || Ok((store.held_ids(range, &asked).encode(), store.retention_bounds())));
        let (held, retention) = found.await?;
        message_with_set(&HeldIdsReply { set: IdSetChecksum::of(&held), retention }, &held)
    }
}

fn message_with_set(message: &impl Serialize, set: &[u8]) -> io::Result<Body> {
    Ok(Body::whole([&encode_head(message)?[..], set].concat()))
}

impl IdSetChecksum {
    fn of(set: &[u8]) -> Self {
        Self { bytes: set.len(), crc: crc32c::crc32c(set) }
    }

    /// Reads the set, and nothing may follow it.
    async fn read(self, context: &ReplicationContext, mut rest: BodyRemainder) -> io::Result<IdSet> {
        let wrong = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        if self.bytes > IDS_BYTES_MAX {
            return Err(wrong("there are too many ids"));
        }
        let mut bytes = Vec::new();
        let most = self.bytes as u64 + 1;
        while let Some(piece) = context.read_chunk(&mut rest, most).await? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > self.bytes {
                return Err(wrong("the body is longer than stated"));
            }
        }
        if bytes.len() != self.bytes || crc32c::crc32c(&bytes) != self.crc {
            return Err(wrong("the ids came damaged"));
        }
        IdSet::decode(&bytes).ok_or_else(|| wrong("these are no ids"))
    }
}

#[cfg(test)]
mod tests;
