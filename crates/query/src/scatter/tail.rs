//! New records of a whole cluster, as they come.
//!
//! Those of one node come in the order in which it accepted them; those of different nodes in no order. A record that more
//! than one node accepted (a client sent it again, elsewhere) comes once, unless so many came between that it is not
//! remembered. Nodes that join are followed from then on; a node that is lost, or down from the beginning, is told of, and
//! followed again when it is back, from then on.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bucksaw_env::BoxFuture;
use bucksaw_record::{Expr, Id, Millis};
use bucksaw_rpc::MalformedMessage;

use super::batch::{BatchSlice, RecordBatch};
use super::peers::QueryPeer;
use super::reply::{NodeReply, ReplyMessage, invalid_reply};
use super::request::ScatterRequest;
use super::requester::Scatter;
use super::server::TAIL;
use crate::recent_ids::RecentIds;
use crate::request::{Request, RequestError};
use crate::stats::MissingReason;
use crate::tail_event::{TailEvent, TailRecords};

/// A node that was lost is asked again so often.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(5);

/// Follows new records. Dropping it ends the work on all nodes.
pub struct ScatterTail {
    scatter: Arc<Scatter>,
    request: Vec<u8>,
    nodes: BTreeMap<Id, TailedNode>,
    /// When the list of nodes has changed, or those that were lost are asked again.
    recheck: Option<(BoxFuture<()>, BoxFuture<()>)>,
    recent_ids: RecentIds,
    /// What is to be told before anything else.
    pending_events: VecDeque<TailEvent>,
}

struct TailedNode {
    address: String,
    reply: Option<NodeReply>,
    /// Whether it was there from the beginning, or its loss was told of.
    suppress_joined: bool,
    is_lost: bool,
    bytes_lost: u64,
}

impl std::fmt::Debug for ScatterTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow").field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

enum Wakeup {
    Message(Id, Box<Result<ReplyMessage, MissingReason>>),
    Recheck,
}

impl Scatter {
    /// Follows the records that are accepted from now on, by any node.
    ///
    /// # Errors
    /// [`RequestError::Expression`], [`RequestError::Long`].
    pub fn tail(self: &Arc<Self>, expr: &Expr) -> Result<ScatterTail, RequestError> {
        let request = Request::new(expr.clone(), Millis(0), Millis::MAX);
        self.check_request(&request)?;
        Ok(ScatterTail::start(self, &request))
    }
}

impl ScatterTail {
    fn start(scatter: &Arc<Scatter>, request: &Request) -> Self {
        let question = ScatterRequest::new(request).encode();
        let remembered = RecentIds::for_memory(scatter.engine().config.result_bytes_max);
        let (lanes, told) = (BTreeMap::new(), VecDeque::new());
        let mut follow = Self {
            scatter: Arc::clone(scatter),
            request: question,
            nodes: lanes,
            recheck: None,
            recent_ids: remembered,
            pending_events: told,
        };
        follow.connect_nodes(true);
        follow
    }

    /// What comes next. It has no end. When this is dropped before it is done, nothing is lost.
    pub async fn next(&mut self) -> TailEvent {
        loop {
            if let Some(told) = self.pending_events.pop_front() {
                return told;
            }
            let event = match self.next_wakeup().await {
                Wakeup::Recheck => {
                    self.recheck = None;
                    self.connect_nodes(false);
                    continue;
                }
                Wakeup::Message(node, heard) => self.accept_message(node, *heard),
            };
            if let Some(event) = event {
                return event;
            }
        }
    }

    async fn next_wakeup(&mut self) -> Wakeup {
        let Self { scatter, recheck: look, nodes: lanes, .. } = self;
        let (changed, again) =
            look.get_or_insert_with(|| (scatter.peers.changed(), scatter.timing.tasks.sleep(RECONNECT_INTERVAL)));
        poll_fn(|context| {
            for (node, lane) in lanes.iter_mut() {
                if let Some(source) = &mut lane.reply
                    && let Poll::Ready(heard) = source.poll_next(context)
                {
                    return Poll::Ready(Wakeup::Message(*node, Box::new(heard)));
                }
            }
            let looked =
                [changed.as_mut(), again.as_mut()].into_iter().any(|wait: Pin<&mut _>| wait.poll(context).is_ready());
            if looked { Poll::Ready(Wakeup::Recheck) } else { Poll::Pending }
        })
        .await
    }

    /// Asks the nodes that are there and not followed.
    fn connect_nodes(&mut self, first: bool) {
        let nodes = self.scatter.nodes();
        self.nodes.retain(|node, lane| lane.reply.is_some() || nodes.iter().any(|peer| peer.node == *node));
        for (at, peer) in nodes.into_iter().enumerate() {
            let own = at == 0;
            let QueryPeer { node, address, is_live: live, queue_oldest: queue_from, .. } = peer;
            let lane = self.nodes.entry(node).or_insert_with(|| TailedNode {
                address: address.clone(),
                reply: None,
                suppress_joined: first,
                is_lost: false,
                bytes_lost: 0,
            });
            if lane.reply.is_none() && live {
                let call = self.scatter.call((!own).then_some(node), TAIL, &self.request);
                lane.reply =
                    Some(NodeReply::start(self.scatter.timing.clone(), self.scatter.timing.clock.uptime(), call));
                lane.bytes_lost = 0;
            }
            // Who takes in nothing has nothing to be missed.
            if lane.reply.is_none() && !live && queue_from.is_some() && !std::mem::replace(&mut lane.is_lost, true) {
                self.pending_events.push_back(TailEvent::Lost { address, reason: MissingReason::Down });
            }
        }
    }

    fn accept_message(&mut self, node: Id, heard: Result<ReplyMessage, MissingReason>) -> Option<TailEvent> {
        let lane = self.nodes.get_mut(&node)?;
        let address = lane.address.clone();
        let reason = match heard {
            Ok(ReplyMessage::Head(_)) => {
                let silent = std::mem::replace(&mut lane.suppress_joined, false) && !lane.is_lost;
                lane.is_lost = false;
                return (!silent).then_some(TailEvent::Joined { address });
            }
            Ok(ReplyMessage::Progress(told)) => {
                let bytes = told.bytes_lost.saturating_sub(lane.bytes_lost);
                lane.bytes_lost = lane.bytes_lost.max(told.bytes_lost);
                return (bytes > 0).then_some(TailEvent::Skipped { address: Some(address), bytes });
            }
            Ok(ReplyMessage::Batch(content)) => match RecordBatch::decode(&content) {
                Ok(batch) => {
                    let new = unseen(&mut self.recent_ids, &Arc::new(batch));
                    return (!new.is_empty()).then_some(TailEvent::Records(TailRecords::cluster(new)));
                }
                Err(broken) => invalid_reply(broken),
            },
            Ok(ReplyMessage::End(_)) => MissingReason::Truncated,
            Ok(ReplyMessage::Cells(_)) => invalid_reply(MalformedMessage("unexpected message: counted ids")),
            Err(reason) => reason,
        };
        lane.reply = None;
        // It is told of once, however often it is asked again in vain.
        let told = std::mem::replace(&mut lane.is_lost, true);
        (!told).then_some(TailEvent::Lost { address, reason })
    }
}

/// The records of a batch whose ids are new.
fn unseen(recent_ids: &mut RecentIds, batch: &Arc<RecordBatch>) -> Vec<BatchSlice> {
    let mut new: Vec<BatchSlice> = Vec::new();
    for (at, id) in batch.ids().iter().enumerate() {
        if !recent_ids.insert(*id) {
            continue;
        }
        let slice = BatchSlice::new(batch, at, at + 1);
        match new.last_mut() {
            Some(last) if last.is_adjacent_to(&slice) => last.extend(&slice),
            _ => new.push(slice),
        }
    }
    new
}
