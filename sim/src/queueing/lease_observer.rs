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
    /// Fetches of each store in a row that found nothing.
    empty_in_row: BTreeMap<Id, u32>,
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

impl LeaseObserver {
    pub(super) fn counts(&self) -> MutexGuard<'_, LeaseCounts> {
        lock(&self.0)
    }

    /// Forgets all counts, but not the records and segments that are under way.
    pub(super) fn reset(&self) {
        let mut counts = self.counts();
        let LeaseCounts { accepted, empty_in_row, leased, .. } = std::mem::take(&mut *counts);
        *counts = LeaseCounts { accepted, empty_in_row, leased, ..LeaseCounts::default() };
    }

    /// Called when a record was acknowledged.
    pub(super) fn record_accepted(&self, id: Id, bytes: usize, now: Duration) {
        let mut counts = self.counts();
        counts.accepted.insert(id, now);
        counts.accepted_bytes += bytes as u64;
    }

    /// Observes the queue of a node, which is one of `queues`.
    pub(super) fn observe(&self, node: &Node, queues: u32) {
        let router = node.cluster.router();
        let (observer, own) = (self.clone(), node.clone());
        router.add(FETCH, move |body| fetch(observer.clone(), own.clone(), queues, body));
        let (observer, own) = (self.clone(), node.clone());
        router.add(ACK, move |body| ack(observer.clone(), own.clone(), body));
    }

    fn count_fetch(&self, holder: Id, reply: &FetchReply, queues: u32) {
        let mut counts = self.counts();
        counts.fetches += 1;
        if !reply.segments.is_empty() {
            counts.empty_in_row.remove(&holder);
            counts.leased += reply.segments.len();
            counts.fetched_segments += reply.segments.len() as u32;
            counts.fetched_bytes += reply.segments.iter().map(|segment| segment.text_bytes).sum::<u64>();
            return;
        }
        counts.empty_fetches += 1;
        let in_row = counts.empty_in_row.entry(holder).or_default();
        *in_row += 1;
        // A store asks each queue once per round, and ends the round with the first segment.
        if *in_row >= queues {
            *in_row = 0;
            counts.vain_rounds += 1;
        }
    }
}

async fn fetch(observer: LeaseObserver, node: Node, queues: u32, body: Body) -> io::Result<Body> {
    let server = LeaseServer::new(Arc::clone(&node.queue), Arc::clone(&node.tasks));
    let request: FetchRequest = read_message(body).await?;
    let (reply, mut rest) = read_head::<FetchReply>(server.fetch(message_body(&request)?).await?).await?;
    observer.count_fetch(request.holder, &reply, queues);
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
