//! Streams of all nodes with their numbers of records.
//!
//! Each node sends the records of its queue and of its store apart ([`sent_streams`](super::sent_streams)). Each stored
//! record is on as many stores as the replication factor, so their sum is divided by it. This is an estimate, because
//! some records may have fewer replicas.

use std::sync::Arc;

use bucksaw_rpc::MalformedMessage;

use super::coverage::Coverage;
use super::reply::{ReplyMessage, invalid_reply};
use super::request::ScatterRequest;
use super::requester::{Scatter, SentRequest};
use super::sent_streams::decode;
use super::server::STREAMS;
use crate::request::{Request, RequestError};
use crate::stats::{MissingReason, QueryStats};
use crate::streams::{StreamTallies, Streams};

impl Scatter {
    /// As [`Answers::streams`](crate::Answers::streams), over the records of all nodes.
    pub(crate) async fn streams(self: &Arc<Self>, request: &Request) -> Result<(Streams, QueryStats), RequestError> {
        let SentRequest { mut replies, mut coverage, .. } =
            self.send_request(STREAMS, &ScatterRequest::new(request), request)?;
        let mut total = StreamTallies::new(self.engine());
        while let Some((number, message)) = replies.next(|_| true).await {
            let is_end = matches!(message, Ok(ReplyMessage::End(_)));
            let accepted = message.and_then(|message| accept_message(number, message, &mut total, &mut coverage));
            if is_end || accepted.is_err() {
                replies.close(number);
            }
            if let Err(reason) = accepted {
                coverage.mark_missing(number, reason);
            }
        }
        // A record may be in a queue and in a store, or on more or fewer stores than it should.
        total.is_approximate = true;
        let streams = total.finish(self.peers.replication_factor() as u64);
        let stats = QueryStats { matched: 0, ..coverage.stats() };
        self.count_missing(&stats.nodes);
        Ok((streams, stats))
    }
}

fn accept_message(
    number: usize,
    message: ReplyMessage,
    total: &mut StreamTallies,
    coverage: &mut Coverage,
) -> Result<(), MissingReason> {
    match message {
        ReplyMessage::Head(status) | ReplyMessage::Progress(status) | ReplyMessage::End(status) => {
            total.is_cut |= status.streams_cut;
            coverage.accept_status(number, status)
        }
        ReplyMessage::Streams(content) => {
            for (labels, tally) in decode(&content).map_err(invalid_reply)? {
                if let Some(sum) = total.tally(&labels) {
                    sum.queued.add(tally.queued);
                    sum.stored.add(tally.stored);
                }
            }
            Ok(())
        }
        ReplyMessage::Batch(_) | ReplyMessage::Cells(_) => {
            Err(invalid_reply(MalformedMessage("unexpected message: records or ids")))
        }
    }
}
