//! One node's answer, as the asker reads it: message by message, each within its time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bucksaw_env::{Body, BoxFuture, Clock, Tasks, with_timeout};
use bytes::Bytes;

use super::message::MessageKind;
use super::request::ReplyStatus;
use crate::stats::MissingReason;
use bucksaw_rpc::{MalformedMessage, MessageReader};

/// How long nodes are waited for.
#[derive(Clone, Copy, Debug)]
pub struct ReplyTimeouts {
    /// From the question to the head of a node's answer. A node looks at what it holds when it sends that, so it must be
    /// well below the time for which a queue shows what it has handed over: a record that moves is seen by one of both.
    pub head: Duration,
    /// Between two messages, while they are waited for. Nodes that search for long send signs of life each five seconds.
    pub idle: Duration,
}

impl Default for ReplyTimeouts {
    fn default() -> Self {
        Self { head: Duration::from_secs(10), idle: Duration::from_secs(30) }
    }
}

/// What is needed to wait.
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

/// What a message said.
#[derive(Debug)]
pub(crate) enum ReplyMessage {
    Head(ReplyStatus),
    Progress(ReplyStatus),
    Batch(Bytes),
    Cells(Bytes),
    End(ReplyStatus),
}

type ReadOutcome = (Option<ReplyReader>, Result<ReplyMessage, MissingReason>);

/// A node's answer.
///
/// It is read only while it is waited for, so what a node may send ahead is what the network holds on its way.
pub(crate) struct NodeReply {
    reader: Option<ReplyReader>,
    read: Option<BoxFuture<ReadOutcome>>,
}

impl NodeReply {
    /// Asks, by a call that was not begun. `asked` is when the question as a whole was.
    pub(crate) fn start(watch: ReplyTiming, asked: Duration, call: BoxFuture<io::Result<Body>>) -> Self {
        Self { reader: None, read: Some(Box::pin(read_head(watch, asked, call))) }
    }

    /// The next message. After an error, or the end, there is none: this must not be polled again.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<ReplyMessage, MissingReason>> {
        let step = match (&mut self.read, self.reader.take()) {
            (Some(step), _) => step,
            (none, Some(reader)) => none.insert(Box::pin(read_next(reader))),
            (None, None) => return Poll::Pending,
        };
        let Poll::Ready((reader, heard)) = Pin::new(step).poll(context) else { return Poll::Pending };
        self.read = None;
        self.reader = reader.filter(|_| !matches!(heard, Err(_) | Ok(ReplyMessage::End(_))));
        Poll::Ready(heard)
    }
}

async fn read_head(watch: ReplyTiming, asked: Duration, call: BoxFuture<io::Result<Body>>) -> ReadOutcome {
    let (tasks, patience, clock) = (Arc::clone(&watch.tasks), watch.timeouts.head, Arc::clone(&watch.clock));
    let head = async {
        let mut reader = match call.await {
            Ok(body) => ReplyReader { timing: watch, body, messages: MessageReader::default() },
            Err(error) => return (None, Err(call_failure(&error))),
        };
        match reader.read().await {
            Ok(ReplyMessage::Head(told)) => (Some(reader), Ok(ReplyMessage::Head(told))),
            Ok(_) => (None, Err(invalid_reply(MalformedMessage("an answer has no head")))),
            Err(why) => (None, Err(why)),
        }
    };
    match with_timeout(&tasks, patience, head).await {
        // A node that was paused finds in time what came in much too late.
        Some((Some(_), _)) if clock.uptime().saturating_sub(asked) > patience => {
            (None, Err(MissingReason::StartTimeout))
        }
        Some(outcome) => outcome,
        None => (None, Err(MissingReason::StartTimeout)),
    }
}

async fn read_next(mut reader: ReplyReader) -> ReadOutcome {
    let (tasks, patience) = (Arc::clone(&reader.timing.tasks), reader.timing.timeouts.idle);
    let heard = with_timeout(&tasks, patience, reader.read()).await;
    let heard = match heard {
        Some(Ok(ReplyMessage::Head(_))) => Err(invalid_reply(MalformedMessage("an answer has two heads"))),
        Some(heard) => heard,
        None => Err(MissingReason::IdleTimeout),
    };
    (Some(reader), heard)
}

impl ReplyReader {
    async fn read(&mut self) -> Result<ReplyMessage, MissingReason> {
        loop {
            if let Some((kind, content)) = self.messages.next_message().map_err(invalid_reply)? {
                let told = |content: &Bytes| ReplyStatus::decode(content).map_err(invalid_reply);
                return Ok(match kind {
                    MessageKind::Head => ReplyMessage::Head(told(&content)?),
                    MessageKind::Progress => ReplyMessage::Progress(told(&content)?),
                    MessageKind::Batch => ReplyMessage::Batch(content),
                    MessageKind::Cells => ReplyMessage::Cells(content),
                    MessageKind::End => ReplyMessage::End(told(&content)?),
                });
            }
            match self.body.next().await {
                Some(Ok(piece)) => self.messages.push(&piece),
                // Without an end message it is not whole, however it ended.
                Some(Err(_)) | None => return Err(MissingReason::Truncated),
            }
        }
    }
}

pub(crate) fn invalid_reply(broken: MalformedMessage) -> MissingReason {
    MissingReason::InvalidReply(broken.0.to_owned())
}

pub(super) fn call_failure(error: &io::Error) -> MissingReason {
    let words = || error.to_string().chars().take(200).collect();
    match error.kind() {
        io::ErrorKind::Unsupported => MissingReason::VersionMismatch(words()),
        io::ErrorKind::Other => MissingReason::Refused(words()),
        _ => MissingReason::Unreachable(words()),
    }
}
