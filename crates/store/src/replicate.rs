//! Sends replicas of a segment to other stores.
//!
//! The stores are drawn by lot, with higher weights for those that hold less. So a new, empty store receives nearly all replicas
//! until it has caught up, and no stored data is moved for it. The lots are drawn once in an hour: a store and the targets of its
//! segments are a [`ReplicaGroup`], and segments of many groups could not be merged.

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;

use bucksaw_env::{Body, BodyWriter, LogLimits, Tasks, log_limited, run_blocking, to_millis, with_timeout};
use bucksaw_record::Id;
use bucksaw_rpc::{encode_head, read_message};
use bucksaw_segment::stored::{IdSum, ReplicaGroup};
use futures_util::future::join_all;
use tracing::debug;

use crate::peers::{Peer, PeerTimeouts};
use crate::receive::{PUT, PutRequest};
use crate::store_context::StoreContext;
use crate::stored_segment::StoredSegment;

/// Bytes of a file per read and message.
const CHUNK_BYTES: u64 = 256 << 10;

/// Weight of a store that holds the average, relative to an empty one.
const AVERAGE_WEIGHT: f64 = 0.1;

#[derive(Debug)]
pub(crate) struct Replicator {
    context: StoreContext,
    log_limits: LogLimits,
}

impl Replicator {
    pub(crate) fn new(context: StoreContext) -> Self {
        Self { log_limits: LogLimits::new(Arc::clone(&context.env.clock)), context }
    }

    /// The order in which the next segments are sent to other stores.
    pub(crate) fn targets(&self, others: Vec<Peer>) -> Vec<Peer> {
        let age_ms = to_millis(self.context.store.replica_group_age()).max(1);
        target_order(others, self.context.node, self.context.env.clock.unix_ms() / age_ms)
    }

    /// This store and the first of its targets, as many as have a record; `None` if only one has.
    pub(crate) fn group(&self, targets: &[Peer], copies: usize) -> Option<ReplicaGroup> {
        let others = targets.get(..copies.checked_sub(1)?).filter(|others| !others.is_empty())?;
        let nodes = others.iter().map(|peer| peer.node).chain([self.context.node]);
        NonZeroU64::new(IdSum::of(nodes).0 as u64).map(ReplicaGroup)
    }

    /// Sends a segment to `copies` stores, in the order of `targets`. Returns how many have stored it: fewer if the rest failed.
    pub(crate) async fn replicate(&self, stored: &Arc<StoredSegment>, targets: Vec<Peer>, copies: usize) -> usize {
        let mut order = targets.into_iter();
        let mut accepted = 0;
        while accepted < copies {
            let next: Vec<Peer> = order.by_ref().take(copies - accepted).collect();
            if next.is_empty() {
                break;
            }
            let sent = next.iter().map(|peer| self.replicate_to(stored, *peer));
            accepted += join_all(sent).await.into_iter().filter(|is_stored| *is_stored).count();
        }
        accepted
    }

    async fn replicate_to(&self, stored: &Arc<StoredSegment>, peer: Peer) -> bool {
        match self.put_segment(stored, peer).await {
            Ok(()) => {
                self.context.metrics.replicated_bytes.inc_by(stored.file_bytes());
                debug!(segment = %stored.id(), store = %peer.node, "replicated a segment");
                true
            }
            Err(error) => {
                self.context.metrics.replicate_failed.inc();
                log_limited!(self.log_limits, warn, segment = %stored.id(), store = %peer.node, %error, "cannot replicate a segment");
                false
            }
        }
    }

    async fn put_segment(&self, stored: &Arc<StoredSegment>, peer: Peer) -> io::Result<()> {
        let StoreContext { tasks, net, timeouts, .. } = &self.context;
        let (writer, body) = Body::channel();
        tasks.spawn(Box::pin(send_file(Arc::clone(tasks), *timeouts, writer, Arc::clone(stored))));
        // The reply comes after the segment is durable. Sending has its own timeouts; this one bounds the whole call.
        let pieces = u32::try_from(stored.file_bytes() / CHUNK_BYTES).unwrap_or(u32::MAX).saturating_add(1);
        let time = timeouts.durable + timeouts.answer + timeouts.piece.saturating_mul(pieces.min(64));
        let call = async { read_message::<serde_json::Value>(net.call(peer.address, PUT, body).await?).await };
        with_timeout(tasks, time, call).await.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into())).map(drop)
    }
}

/// Sends a segment's file. The reader may close the body early after its reply.
async fn send_file(tasks: Arc<dyn Tasks>, timeouts: PeerTimeouts, writer: BodyWriter, stored: Arc<StoredSegment>) {
    let put = PutRequest { id: stored.id(), bytes: stored.file_bytes() };
    let send = async |piece: bytes::Bytes| {
        let sent = with_timeout(&tasks, timeouts.piece, writer.send(piece)).await;
        sent.ok_or(io::ErrorKind::TimedOut)?.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    };
    let send_all = async {
        send(encode_head(&put)?).await?;
        let mut at = 0;
        while at < put.bytes {
            let (from, file) = (at, Arc::clone(&stored));
            let read = run_blocking(&tasks, move || file.reader().raw_bytes(from, CHUNK_BYTES)).await;
            let piece = read.ok_or_else(|| io::Error::other("the segment was not read because of a bug"))??;
            at += piece.len() as u64;
            send(piece.into()).await?;
        }
        Ok(())
    };
    match send_all.await {
        Ok(()) => drop(writer.end().await),
        Err(error) => writer.fail(error).await,
    }
}

/// The order of the stores for segments of `own` in a period: by lot, weighted by how much less than the average they hold.
fn target_order(stores: Vec<Peer>, own: Id, period: u64) -> Vec<Peer> {
    let average = stores.iter().map(|peer| peer.held_bytes as f64).sum::<f64>() / stores.len().max(1) as f64;
    let weight = |peer: &Peer| {
        let behind = 1.0 - peer.held_bytes as f64 / average.max(1.0);
        behind.max(0.0) + AVERAGE_WEIGHT
    };
    // Exponential races (Efraimidis, Spirakis: "Weighted random sampling with a reservoir"): the order of -ln(u)/weight.
    let mut order: Vec<(f64, Id, Peer)> = stores
        .iter()
        .map(|peer| {
            let lot = [own, peer.node, Id::from_bits(u128::from(period))]
                .into_iter()
                .fold(0, |lot, id| IdSum::of([Id::from_bits(lot ^ id.bits())]).0);
            let uniform = (lot as u64 >> 11) as f64 / (1_u64 << 53) as f64;
            (-uniform.max(f64::MIN_POSITIVE).ln() / weight(peer), peer.node, *peer)
        })
        .collect();
    order.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    order.into_iter().map(|(_, _, peer)| peer).collect()
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Millis, Producer};

    use super::*;

    /// How often, of a thousand draws, each store is the first.
    fn firsts(held: &[u64]) -> Vec<usize> {
        let node = |number: usize| Id::new(Millis(1), Producer::new(number as u64), 0);
        let address = "10.0.0.1:7659".parse().unwrap();
        let stores: Vec<Peer> = (0..)
            .zip(held)
            .map(|(number, held)| Peer { node: node(number), address, held_bytes: *held, free_bytes: 1 })
            .collect();
        let own = node(held.len());
        let mut firsts = vec![0; held.len()];
        for period in 0..1_000 {
            let order = target_order(stores.clone(), own, period);
            assert_eq!(order.len(), held.len());
            firsts[order[0].node.producer().bits() as usize] += 1;
        }
        firsts
    }

    #[test]
    fn emptier_stores_are_chosen_first() {
        let even = firsts(&[5, 5, 5, 5]);
        assert!(even.iter().all(|first| (190..310).contains(first)), "{even:?}");
        let new = firsts(&[1_000_000, 1_000_000, 1_000_000, 0]);
        assert!(new[3] > 600 && new[..3].iter().all(|first| *first > 40), "{new:?}");
        let none = firsts(&[0, 0]);
        assert!(none.iter().all(|first| *first > 400), "{none:?}");
    }
}
