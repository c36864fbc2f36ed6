//! One node's answer, as the asker reads it: message by message, each within its time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bucksaw_doors::{Body, Clock, Tasks, Waiting, within};
use bytes::Bytes;

use super::message::{Broken, Kind, Messages};
use super::question::Told;
use crate::stats::Why;

/// How long nodes are waited for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// From the question to the head of a node's answer. A node looks at what it holds when it sends that, so it must be
    /// well below the time for which a queue shows what it has handed over: a record that moves is seen by one of both.
    pub head: Duration,
    /// Between two messages, while they are waited for. Nodes that search for long send signs of life each five seconds.
    pub silence: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { head: Duration::from_secs(10), silence: Duration::from_secs(30) }
    }
}

/// What is needed to wait.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) tasks: Arc<dyn Tasks>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) patience: Patience,
}

struct Reader {
    watch: Watch,
    body: Body,
    messages: Messages,
}

/// What a message said.
#[derive(Debug)]
pub(crate) enum Heard {
    Head(Told),
    Progress(Told),
    Batch(Bytes),
    Cells(Bytes),
    End(Told),
}

type Outcome = (Option<Reader>, Result<Heard, Why>);

/// A node's answer.
///
/// It is read only while it is waited for, so what a node may send ahead is what the network holds on its way.
pub(crate) struct Source {
    reader: Option<Reader>,
    step: Option<Waiting<Outcome>>,
}

impl Source {
    /// Asks, by a call that was not begun. `asked` is when the question as a whole was.
    pub(crate) fn ask(watch: Watch, asked: Duration, call: Waiting<io::Result<Body>>) -> Self {
        Self { reader: None, step: Some(Box::pin(begin(watch, asked, call))) }
    }

    /// The next message. After an error, or the end, there is none: this must not be polled again.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Heard, Why>> {
        let step = match (&mut self.step, self.reader.take()) {
            (Some(step), _) => step,
            (none, Some(reader)) => none.insert(Box::pin(next(reader))),
            (None, None) => return Poll::Pending,
        };
        let Poll::Ready((reader, heard)) = Pin::new(step).poll(context) else { return Poll::Pending };
        self.step = None;
        self.reader = reader.filter(|_| !matches!(heard, Err(_) | Ok(Heard::End(_))));
        Poll::Ready(heard)
    }
}

async fn begin(watch: Watch, asked: Duration, call: Waiting<io::Result<Body>>) -> Outcome {
    let (tasks, patience, clock) = (Arc::clone(&watch.tasks), watch.patience.head, Arc::clone(&watch.clock));
    let head = async {
        let mut reader = match call.await {
            Ok(body) => Reader { watch, body, messages: Messages::default() },
            Err(error) => return (None, Err(refused(&error))),
        };
        match reader.read().await {
            Ok(Heard::Head(told)) => (Some(reader), Ok(Heard::Head(told))),
            Ok(_) => (None, Err(senseless(Broken("an answer has no head")))),
            Err(why) => (None, Err(why)),
        }
    };
    match within(&tasks, patience, head).await {
        // A node that was paused finds in time what came in much too late.
        Some((Some(_), _)) if clock.uptime().saturating_sub(asked) > patience => (None, Err(Why::Late)),
        Some(outcome) => outcome,
        None => (None, Err(Why::Late)),
    }
}

async fn next(mut reader: Reader) -> Outcome {
    let (tasks, patience) = (Arc::clone(&reader.watch.tasks), reader.watch.patience.silence);
    let heard = within(&tasks, patience, reader.read()).await;
    let heard = match heard {
        Some(Ok(Heard::Head(_))) => Err(senseless(Broken("an answer has two heads"))),
        Some(heard) => heard,
        None => Err(Why::Silent),
    };
    (Some(reader), heard)
}

impl Reader {
    async fn read(&mut self) -> Result<Heard, Why> {
        loop {
            if let Some((kind, content)) = self.messages.next().map_err(senseless)? {
                let told = |content: &Bytes| Told::decode(content).map_err(senseless);
                return Ok(match kind {
                    Kind::Head => Heard::Head(told(&content)?),
                    Kind::Progress => Heard::Progress(told(&content)?),
                    Kind::Batch => Heard::Batch(content),
                    Kind::Cells => Heard::Cells(content),
                    Kind::End => Heard::End(told(&content)?),
                });
            }
            match self.body.next().await {
                Some(Ok(piece)) => self.messages.push(&piece),
                // Without an end message it is not whole, however it ended.
                Some(Err(_)) | None => return Err(Why::CutOff),
            }
        }
    }
}

pub(crate) fn senseless(broken: Broken) -> Why {
    Why::Senseless(broken.0.to_owned())
}

pub(super) fn refused(error: &io::Error) -> Why {
    let words = || error.to_string().chars().take(200).collect();
    match error.kind() {
        io::ErrorKind::Unsupported => Why::OtherVersion(words()),
        io::ErrorKind::Other => Why::Refused(words()),
        _ => Why::Unreachable(words()),
    }
}
