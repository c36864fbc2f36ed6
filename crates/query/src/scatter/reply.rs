//! A node's reply as a stream of messages, each within its timeout.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bucksaw_env::{Body, BoxFuture, Clock, Tasks, run_task, with_timeout};
use bytes::Bytes;

use super::message::MessageKind;
use super::request::ReplyStatus;
use crate::stats::MissingReason;
use bucksaw_rpc::{MalformedMessage, MessageReader};

/// Timeouts of replies.
#[derive(Clone, Copy, Debug)]
pub struct ReplyTimeouts {
    /// From the request to the head of a reply, which a node sends when it has taken its snapshot. Much shorter than
    /// the time for which a queue lists committed segments. So a record that moves from a queue to a store is in at
    /// least one of the two snapshots.
    pub head: Duration,
    /// Between two messages. Nodes send keepalives every five seconds.
    pub idle: Duration,
}

impl Default for ReplyTimeouts {
    fn default() -> Self {
        Self { head: Duration::from_secs(10), idle: Duration::from_secs(30) }
    }
}

/// Timeouts, with the tasks and clock that measure them.
#[derive(Clone, Debug)]
pub(crate) struct ReplyTiming {
    pub(crate) tasks: Arc<dyn Tasks>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timeouts: ReplyTimeouts,
}

struct ReplyReader {
    timing: ReplyTiming,
    body: Body,
    messages: MessageReader,
}

/// A decoded message.
#[derive(Debug)]
pub(crate) enum ReplyMessage {
    Head(ReplyStatus),
    Progress(ReplyStatus),
    Batch(Bytes),
    Cells(Bytes),
    Streams(Bytes),
    End(ReplyStatus),
}

type ReadOutcome = (Option<ReplyReader>, Result<ReplyMessage, MissingReason>);

/// A node's reply.
///
/// It is read only while a consumer waits for it, so a node can send ahead no more than the network buffers. A message is read by a
/// task beside the connection, because it arrives in many pieces, and to wake the consumer on a thread of another runtime for each
/// of them would cost more than to read it.
pub(crate) struct NodeReply {
    reader: Option<ReplyReader>,
    read: Option<BoxFuture<Option<ReadOutcome>>>,
}

impl NodeReply {
    /// Reads the reply of a call that has not started. `requested` is the uptime of the request.
    pub(crate) fn start(timing: ReplyTiming, requested: Duration, call: BoxFuture<io::Result<Body>>) -> Self {
        let tasks = Arc::clone(&timing.tasks);
        Self { reader: None, read: Some(run_task(&tasks, read_head(timing, requested, call))) }
    }

    /// The next message. Must not be polled after an error or the end.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<ReplyMessage, MissingReason>> {
        let read = match (&mut self.read, self.reader.take()) {
            (Some(read), _) => read,
            (none, Some(mut reader)) => match reader.arrived() {
                Ok(None) => {
                    let tasks = Arc::clone(&reader.timing.tasks);
                    none.insert(run_task(&tasks, read_next(reader)))
                }
                Ok(Some(message)) => return Poll::Ready(self.accept(Some(reader), refuse_head(message))),
                Err(reason) => return Poll::Ready(self.accept(None, Err(reason))),
            },
            (None, None) => return Poll::Pending,
        };
        let Poll::Ready(outcome) = Pin::new(read).poll(context) else { return Poll::Pending };
        self.read = None;
        // Without an outcome the node is being stopped.
        let (reader, message) = outcome.unwrap_or((None, Err(MissingReason::Truncated)));
        Poll::Ready(self.accept(reader, message))
    }

    /// Reads on after a message that is not the last.
    fn accept(
        &mut self,
        reader: Option<ReplyReader>,
        message: Result<ReplyMessage, MissingReason>,
    ) -> Result<ReplyMessage, MissingReason> {
        self.reader = reader.filter(|_| !matches!(message, Err(_) | Ok(ReplyMessage::End(_))));
        message
    }
}

/// The replies of all nodes to one request, by node; `None` after its end.
#[derive(Default)]
pub(crate) struct ReplySet(pub(crate) Vec<Option<NodeReply>>);

impl ReplySet {
    pub(crate) fn is_open(&self, node: usize) -> bool {
        self.0.get(node).is_some_and(Option::is_some)
    }

    /// Ends the work of a node.
    pub(crate) fn close(&mut self, node: usize) {
        self.0.get_mut(node).map(Option::take);
    }

    /// Waits for the next message of a node that `is_read` selects; `None` if all replies have ended.
    pub(crate) async fn next(
        &mut self,
        is_read: impl Fn(usize) -> bool,
    ) -> Option<(usize, Result<ReplyMessage, MissingReason>)> {
        if self.0.iter().all(Option::is_none) {
            return None;
        }
        let message = poll_fn(|context| {
            for (node, reply) in self.0.iter_mut().enumerate().filter(|(node, _)| is_read(*node)) {
                if let Some(reply) = reply
                    && let Poll::Ready(message) = reply.poll_next(context)
                {
                    return Poll::Ready((node, message));
                }
            }
            Poll::Pending
        });
        Some(message.await)
    }
}

async fn read_head(timing: ReplyTiming, requested: Duration, call: BoxFuture<io::Result<Body>>) -> ReadOutcome {
    let (tasks, timeout, clock) = (Arc::clone(&timing.tasks), timing.timeouts.head, Arc::clone(&timing.clock));
    let head = async {
        let mut reader = match call.await {
            Ok(body) => ReplyReader { timing, body, messages: MessageReader::default() },
            Err(error) => return (None, Err(call_failure(&error))),
        };
        match reader.read().await {
            Ok(ReplyMessage::Head(status)) => (Some(reader), Ok(ReplyMessage::Head(status))),
            Ok(_) => (None, Err(invalid_reply(MalformedMessage("a reply has no head")))),
            Err(reason) => (None, Err(reason)),
        }
    };
    match with_timeout(&tasks, timeout, head).await {
        // A process that was paused may see a late reply before its timeout.
        Some((Some(_), _)) if clock.uptime().saturating_sub(requested) > timeout => {
            (None, Err(MissingReason::StartTimeout))
        }
        Some(outcome) => outcome,
        None => (None, Err(MissingReason::StartTimeout)),
    }
}

async fn read_next(mut reader: ReplyReader) -> ReadOutcome {
    let (tasks, timeout) = (Arc::clone(&reader.timing.tasks), reader.timing.timeouts.idle);
    let message = match with_timeout(&tasks, timeout, reader.read()).await {
        Some(message) => message.and_then(refuse_head),
        None => Err(MissingReason::IdleTimeout),
    };
    (Some(reader), message)
}

/// An error for a head, which is only the first message.
fn refuse_head(message: ReplyMessage) -> Result<ReplyMessage, MissingReason> {
    match message {
        ReplyMessage::Head(_) => Err(invalid_reply(MalformedMessage("a reply has two heads"))),
        message => Ok(message),
    }
}

impl ReplyReader {
    /// The next message, if all of it has arrived.
    fn arrived(&mut self) -> Result<Option<ReplyMessage>, MissingReason> {
        let Some((kind, content)) = self.messages.next_message().map_err(invalid_reply)? else { return Ok(None) };
        let status = |content: &Bytes| ReplyStatus::decode(content).map_err(invalid_reply);
        Ok(Some(match kind {
            MessageKind::Head => ReplyMessage::Head(status(&content)?),
            MessageKind::Progress => ReplyMessage::Progress(status(&content)?),
            MessageKind::Batch | MessageKind::AttributedBatch => ReplyMessage::Batch(content),
            MessageKind::Cells => ReplyMessage::Cells(content),
            MessageKind::Streams => ReplyMessage::Streams(content),
            MessageKind::End => ReplyMessage::End(status(&content)?),
        }))
    }

    async fn read(&mut self) -> Result<ReplyMessage, MissingReason> {
        loop {
            if let Some(message) = self.arrived()? {
                return Ok(message);
            }
            match self.body.next().await {
                Some(Ok(piece)) => self.messages.push(&piece),
                // Without an end message a reply is truncated.
                Some(Err(_)) | None => return Err(MissingReason::Truncated),
            }
        }
    }
}

pub(crate) fn invalid_reply(error: MalformedMessage) -> MissingReason {
    MissingReason::InvalidReply(error.0.to_owned())
}

pub(super) fn call_failure(error: &io::Error) -> MissingReason {
    let message = || error.to_string().chars().take(200).collect();
    match error.kind() {
        io::ErrorKind::Unsupported => MissingReason::VersionMismatch(message()),
        io::ErrorKind::Other => MissingReason::Refused(message()),
        _ => MissingReason::Unreachable(message()),
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_env::{Env, real};
    use bucksaw_rpc::stream_message;
    use tokio::runtime::Handle;

    use super::*;

    #[tokio::test]
    async fn a_second_head_is_refused_in_the_same_piece_and_in_the_next() {
        let head = stream_message(MessageKind::Head, &ReplyStatus::default().encode());
        for pieces in [vec![[&head[..], &head[..]].concat()], vec![head.to_vec(), head.to_vec()]] {
            let (writer, body) = Body::channel();
            for piece in pieces {
                writer.send(piece).await.unwrap();
            }
            let (tasks, clock) = (Arc::new(real::Tasks::new(Handle::current())), Env::real().clock);
            let requested = clock.uptime();
            let timing = ReplyTiming { tasks, clock, timeouts: ReplyTimeouts::default() };
            let mut reply = NodeReply::start(timing, requested, Box::pin(async move { Ok(body) }));
            let first = poll_fn(|context| reply.poll_next(context)).await;
            assert!(matches!(first, Ok(ReplyMessage::Head(_))), "{first:?}");
            let second = poll_fn(|context| reply.poll_next(context)).await;
            assert!(matches!(second, Err(MissingReason::InvalidReply(_))), "{second:?}");
        }
    }
}
