//! The call `store/held-ids`: which records of a time range another store holds.
//!
//! The request contains ids of the calling store; the reply lists those that the other store holds too. So a reply is
//! never larger than its request, and blocks without the requested producers are not opened. The other store reads the
//! rows of blocks, not their text.

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
use crate::replication::Replication;
use crate::store_context::{StoreContext, timed_out};

/// The name of the call.
pub const HELD_IDS: &str = "store/held-ids";

/// The head of a request. An id set follows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct HeldIdsRequest {
    /// The time range, without its end.
    from_ms: u64,
    to_ms: u64,
    #[serde(flatten)]
    set: IdSetChecksum,
}

/// The head of a reply. An id set follows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct HeldIdsReply {
    #[serde(flatten)]
    set: IdSetChecksum,
    #[serde(default)]
    retention: RetentionBounds,
}

/// Length and checksum of the id set that follows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct IdSetChecksum {
    bytes: usize,
    crc: u32,
}

/// Asks another store which of these records of a range it holds, and for its retention bounds. `asked` is an encoded set of
/// at most [`IDS_BYTES_MAX`] bytes.
pub(crate) async fn request_held_ids(
    context: &StoreContext,
    peer: Peer,
    range: TimeRange,
    asked: &[u8],
) -> io::Result<(IdSet, RetentionBounds)> {
    let StoreContext { tasks, net, timeouts, .. } = context;
    let request = HeldIdsRequest { from_ms: range.from.0, to_ms: range.to.0, set: IdSetChecksum::of(asked) };
    let body = message_with_set(&request, asked)?;
    let reply = async { read_head::<HeldIdsReply>(net.call(peer.address, HELD_IDS, body).await?).await };
    // The other store reads its disk before it replies, so this call has the timeout of durability.
    let (head, rest) = with_timeout(tasks, timeouts.durable, reply).await.ok_or_else(timed_out)??;
    Ok((head.set.read(context, rest).await?, head.retention))
}

impl Replication {
    /// Answers [`HELD_IDS`].
    ///
    /// # Errors
    /// `InvalidData` for an invalid request, a timeout, or an error of the sender.
    pub async fn answer_held_ids(&self, body: Body) -> io::Result<Body> {
        let StoreContext { tasks, timeouts, .. } = &self.context;
        let (request, rest) =
            with_timeout(tasks, timeouts.answer, read_head::<HeldIdsRequest>(body)).await.ok_or_else(timed_out)??;
        let asked = request.set.read(&self.context, rest).await?;
        let (from, to) = (request.from_ms.min(Millis::MAX.0), request.to_ms.min(TimeRange::ALL.to.0));
        let range = TimeRange { from: Millis(from), to: Millis(to) };
        let store = Arc::clone(&self.store);
        let find = move || Ok((store.held_ids(range, &asked).encode(), store.retention_bounds()));
        let (held, retention) = self.context.run_blocking(find).await?;
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

    /// Reads and verifies the set; nothing may follow it.
    async fn read(self, context: &StoreContext, mut rest: BodyRemainder) -> io::Result<IdSet> {
        let wrong = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        if self.bytes > IDS_BYTES_MAX {
            return Err(wrong("the id set is too large"));
        }
        let mut bytes = Vec::new();
        let bytes_max = self.bytes as u64 + 1;
        while let Some(piece) = context.read_chunk(&mut rest, bytes_max).await? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > self.bytes {
                return Err(wrong("the body is longer than stated"));
            }
        }
        if bytes.len() != self.bytes || crc32c::crc32c(&bytes) != self.crc {
            return Err(wrong("the id set is damaged"));
        }
        IdSet::decode(&bytes).ok_or_else(|| wrong("the id set is invalid"))
    }
}

#[cfg(test)]
mod tests;
