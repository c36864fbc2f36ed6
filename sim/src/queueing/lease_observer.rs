//! Counts the leases of queue segments at the calls of stores: `ingest/fetch` and `ingest/ack`.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bucksaw_env::{Body, lock};
use bucksaw_ingest::lease::{ACK, AckRequest, FETCH, FetchReply, FetchRequest, LeaseServer};
use bucksaw_node::Node;
use bucksaw_record::Id;
use bucksaw_rpc::{encode_head, message_body, read_head, read_message};

/// The counts of all ingest nodes. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct LeaseObserver(Arc<Mutex<LeaseCounts>>);

/// What was counted since the last [`LeaseObserver::reset`], and the state of the run.
#[derive(Debug, Default)]
pub(super) struct LeaseCounts {
    /// When each record was acknowledged to its client, until its segment is committed: by the producer, which is the ingest
    /// node, and the sequence number.
    accepted: BTreeMap<Id, Duration>,
    /// The present or last round of each store over the queues.
    rounds: BTreeMap<Id, FetchRound>,
    /// Segments with a lease.
    pub(super) leased: usize,
    /// Leased segments, and bytes of their text.
    pub(super) fetched_segments: u32,
    pub(super) fetched_bytes: u64,
    /// Bytes of accepted text.
    pub(super) accepted_bytes: u64,
    /// Fetches that found nothing, and all.
    pub(super) empty_fetches: u32,
    pub(super) fetches: u32,
    /// Rounds of a store over all queues that found nothing.
    pub(super) vain_rounds: u32,
    /// Seconds from the acknowledgement to the commit of each committed record.
    pub(super) stored_seconds: Vec<f64>,
}

/// The fetches of a store without a longer pause between them.
#[derive(Clone, Copy, Debug)]
struct FetchRound {
    last_fetch: Duration,
    found: bool,
}

/// A longer time between two fetches of a store is a pause: it pauses for 20 ms after a gather, and for 50 ms after a round that
/// found nothing. A fetch that finds nothing takes 7 ms at most.
const ROUND_PAUSE: Duration = Duration::from_millis(15);

impl LeaseObserver {
    pub(super) fn counts(&self) -> MutexGuard<'_, LeaseCounts> {
        lock(&self.0)
    }

    /// Forgets all counts, but not the records and segments that are under way.
    pub(super) fn reset(&self) {
        let mut counts = self.counts();
        let LeaseCounts { accepted, rounds, leased, .. } = std::mem::take(&mut *counts);
        *counts = LeaseCounts { accepted, rounds, leased, ..LeaseCounts::default() };
    }

    /// Called when a record was acknowledged.
    pub(super) fn record_accepted(&self, id: Id, bytes: usize, now: Duration) {
        let mut counts = self.counts();
        counts.accepted.insert(id, now);
        counts.accepted_bytes += bytes as u64;
    }

    /// Observes the queue of a node.
    pub(super) fn observe(&self, node: &Node) {
        let router = node.cluster.router();
        let (observer, own) = (self.clone(), node.clone());
        router.add(FETCH, move |body| fetch(observer.clone(), own.clone(), body));
        let (observer, own) = (self.clone(), node.clone());
        router.add(ACK, move |body| ack(observer.clone(), own.clone(), body));
    }

    fn count_fetch(&self, holder: Id, reply: &FetchReply, now: Duration) {
        let mut counts = self.counts();
        let before = counts.rounds.get(&holder).copied();
        let present = before.filter(|round| now.saturating_sub(round.last_fetch) < ROUND_PAUSE);
        if before.is_some_and(|round| present.is_none() && !round.found) {
            counts.vain_rounds += 1;
        }
        let found = !reply.segments.is_empty();
        let found_before = present.is_some_and(|round| round.found);
        counts.rounds.insert(holder, FetchRound { last_fetch: now, found: found || found_before });
        counts.fetches += 1;
        counts.empty_fetches += u32::from(!found);
        counts.leased += reply.segments.len();
        counts.fetched_segments += reply.segments.len() as u32;
        counts.fetched_bytes += reply.segments.iter().map(|segment| segment.text_bytes).sum::<u64>();
    }
}

async fn fetch(observer: LeaseObserver, node: Node, body: Body) -> io::Result<Body> {
    let server = LeaseServer::new(Arc::clone(&node.queue), Arc::clone(&node.tasks));
    let request: FetchRequest = read_message(body).await?;
    let (reply, mut rest) = read_head::<FetchReply>(server.fetch(message_body(&request)?).await?).await?;
    observer.count_fetch(request.holder, &reply, node.env.clock.uptime());
    let mut files = encode_head(&reply)?.to_vec();
    while let Some(piece) = rest.next_chunk(u64::MAX).await? {
        files.extend_from_slice(&piece);
    }
    Ok(Body::whole(files))
}

async fn ack(observer: LeaseObserver, node: Node, body: Body) -> io::Result<Body> {
    let request: AckRequest = read_message(body).await?;
    let mut committed = node.queue.uncommitted_segments();
    committed.retain(|view| request.stored.contains(&view.id));
    let server = LeaseServer::new(Arc::clone(&node.queue), Arc::clone(&node.tasks));
    let reply = server.ack(message_body(&request)?).await?;
    let (now, mut counts) = (node.env.clock.uptime(), observer.counts());
    for view in committed {
        counts.leased -= 1;
        let ids: Vec<Id> = counts.accepted.range(view.reach.low..=view.reach.high).map(|(id, _)| *id).collect();
        let own = ids.into_iter().filter(|id| id.producer() == view.reach.low.producer());
        let accepted: Vec<Duration> = own.filter_map(|id| counts.accepted.remove(&id)).collect();
        counts.stored_seconds.extend(accepted.into_iter().map(|at| now.saturating_sub(at).as_secs_f64()));
    }
    Ok(reply)
}
