//! The tail of all nodes.
//!
//! Records of one node arrive in the order in which it accepted them; records of several nodes in no order. A record
//! that several nodes accepted, because a client sent it again, is shown once, within the limits of [`RecentIds`].
//! Nodes that join are followed from then on. The loss of a node is reported once; the tail follows the node again when
//! it returns.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bucksaw_env::BoxFuture;
use bucksaw_record::Id;
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

/// Interval of attempts to follow a lost node.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(5);

/// Follows new records of all nodes. Dropping it ends the work on all nodes.
pub(crate) struct ScatterTail {
    scatter: Arc<Scatter>,
    /// The encoded request.
    request: Vec<u8>,
    nodes: BTreeMap<Id, TailedNode>,
    /// Resolve when the nodes have changed, and when lost nodes are to be called again.
    recheck: Option<(BoxFuture<()>, BoxFuture<()>)>,
    recent_ids: RecentIds,
    pending_events: VecDeque<TailEvent>,
}

struct TailedNode {
    address: String,
    reply: Option<NodeReply>,
    /// Whether the node was known when the tail started, so that its first reply is no event.
    suppress_joined: bool,
    is_lost: bool,
    bytes_lost: u64,
}

enum Wakeup {
    Message(Id, Box<Result<ReplyMessage, MissingReason>>),
    Recheck,
}

impl Scatter {
    /// Follows the records that any node accepts from now on.
    pub(crate) fn tail(self: &Arc<Self>, request: &Request) -> Result<ScatterTail, RequestError> {
        self.check_request(request)?;
        let mut tail = ScatterTail {
            scatter: Arc::clone(self),
            request: ScatterRequest::new(request).with_attributes().encode(),
            nodes: BTreeMap::new(),
            recheck: None,
            recent_ids: RecentIds::for_memory(self.engine().config.result_bytes_max),
            pending_events: VecDeque::new(),
        };
        tail.connect_nodes(true);
        Ok(tail)
    }
}

impl ScatterTail {
    /// Waits for the next event. Dropping the future loses no event.
    pub(crate) async fn next(&mut self) -> TailEvent {
        loop {
            if let Some(event) = self.pending_events.pop_front() {
                return event;
            }
            match self.next_wakeup().await {
                Wakeup::Recheck => {
                    self.recheck = None;
                    self.connect_nodes(false);
                }
                Wakeup::Message(node, message) => {
                    let event = self.accept_message(node, *message);
                    self.pending_events.extend(event);
                }
            }
        }
    }

    async fn next_wakeup(&mut self) -> Wakeup {
        let Self { scatter, recheck, nodes, .. } = self;
        let (changed, reconnect) =
            recheck.get_or_insert_with(|| (scatter.peers.changed(), scatter.timing.tasks.sleep(RECONNECT_INTERVAL)));
        poll_fn(|context| {
            for (id, node) in nodes.iter_mut() {
                if let Some(reply) = &mut node.reply
                    && let Poll::Ready(message) = reply.poll_next(context)
                {
                    return Poll::Ready(Wakeup::Message(*id, Box::new(message)));
                }
            }
            let mut waits = [changed.as_mut(), reconnect.as_mut()].into_iter();
            let is_due = waits.any(|wait: Pin<&mut _>| wait.poll(context).is_ready());
            if is_due { Poll::Ready(Wakeup::Recheck) } else { Poll::Pending }
        })
        .await
    }

    /// Calls live nodes that are not followed.
    fn connect_nodes(&mut self, is_start: bool) {
        let peers = self.scatter.nodes();
        self.nodes.retain(|id, node| node.reply.is_some() || peers.iter().any(|peer| peer.node == *id));
        for (at, peer) in peers.into_iter().enumerate() {
            let QueryPeer { node: id, address, is_live, queue_oldest, .. } = peer;
            let node = self.nodes.entry(id).or_insert_with(|| TailedNode {
                address: address.clone(),
                reply: None,
                suppress_joined: is_start,
                is_lost: false,
                bytes_lost: 0,
            });
            if node.reply.is_none() && is_live {
                node.reply = Some(self.scatter.call((at > 0).then_some(id), TAIL, &self.request));
                node.bytes_lost = 0;
            }
            // A node that accepts no records has none to miss.
            let is_missed = node.reply.is_none() && queue_oldest.is_some();
            if is_missed && !std::mem::replace(&mut node.is_lost, true) {
                self.pending_events.push_back(TailEvent::Lost { address, reason: MissingReason::Down });
            }
        }
    }

    fn accept_message(&mut self, node: Id, message: Result<ReplyMessage, MissingReason>) -> Option<TailEvent> {
        let node = self.nodes.get_mut(&node)?;
        let address = node.address.clone();
        let reason = match message {
            Ok(ReplyMessage::Head(_)) => {
                let is_silent = std::mem::replace(&mut node.suppress_joined, false) && !node.is_lost;
                node.is_lost = false;
                return (!is_silent).then_some(TailEvent::Joined { address });
            }
            Ok(ReplyMessage::Progress(status)) => {
                let bytes = status.bytes_lost.saturating_sub(node.bytes_lost);
                node.bytes_lost = node.bytes_lost.max(status.bytes_lost);
                return (bytes > 0).then_some(TailEvent::Skipped { address: Some(address), bytes });
            }
            Ok(ReplyMessage::Batch(content)) => match RecordBatch::decode(&content) {
                Ok(batch) => {
                    let new = BatchSlice::select(&Arc::new(batch), |id| self.recent_ids.insert(id));
                    return (!new.is_empty()).then_some(TailEvent::Records(TailRecords::cluster(new)));
                }
                Err(error) => invalid_reply(error),
            },
            Ok(ReplyMessage::End(_)) => MissingReason::Truncated,
            Ok(ReplyMessage::Cells(_) | ReplyMessage::Streams(_)) => {
                invalid_reply(MalformedMessage("unexpected message: counted ids or streams"))
            }
            Err(reason) => reason,
        };
        node.reply = None;
        // A lost node is reported once; failed attempts to reconnect are not reported again.
        let is_known = std::mem::replace(&mut node.is_lost, true);
        (!is_known).then_some(TailEvent::Lost { address, reason })
    }
}
