//! Reads an answer item by item: objects are whole, however the bytes arrive.

use std::collections::VecDeque;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use memchr::{memchr_iter, memrchr};

use super::{AnswerStats, Message};
use crate::node_client::{AnswerStream, ConnectionLost};
use crate::one_line::one_line;
use crate::progress::Progress;
use crate::values::NodeUrl;

/// Longest record in JSON, in bytes: much longer than any that a node accepts.
const OBJECT_BYTES_MAX: usize = 64 << 20;

/// A part of an answer.
#[derive(Debug)]
pub(crate) enum AnswerItem {
    /// Part of the matching records as received.
    Raw(Bytes),
    /// A matching record as JSON, without its line end.
    Object(Bytes),
    /// A notice to the user, as JSON.
    Notice(Bytes),
    /// The statistics of the complete answer; the last item.
    Stats(AnswerStats),
}

/// Reads an answer, and shows the progress of one that takes long.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    stream: AnswerStream,
    addr: NodeUrl,
    objects: VecDeque<Bytes>,
    /// The begin of an object whose end has not arrived.
    partial_object: Vec<u8>,
    progress: Progress,
    records: u64,
    bytes: u64,
}

impl AnswerReader {
    pub(crate) fn new(stream: AnswerStream, addr: &NodeUrl, progress: Progress) -> Self {
        let (objects, partial_object) = (VecDeque::new(), Vec::new());
        Self { stream, addr: addr.clone(), objects, partial_object, progress, records: 0, bytes: 0 }
    }

    /// The next item; `None` at an end without statistics. Calls `flush` before it waits for the node, and before an
    /// error, so that records before it are printed.
    pub(crate) async fn next(
        &mut self,
        mut flush: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<AnswerItem>> {
        loop {
            if let Some(object) = self.objects.pop_front() {
                self.progress.clear();
                return Ok(Some(AnswerItem::Object(object)));
            }
            let message = self.message(&mut flush).await;
            if !matches!(message, Ok(Some(Message::Json(_)))) {
                self.progress.clear();
            }
            return Ok(Some(match message {
                Ok(None) => return Ok(None),
                Ok(Some(Message::Json(piece))) => {
                    self.push_objects(&piece)?;
                    continue;
                }
                Ok(Some(Message::Raw(piece))) => {
                    self.bytes += piece.len() as u64;
                    AnswerItem::Raw(piece)
                }
                Ok(Some(Message::Notice(notice))) => AnswerItem::Notice(notice),
                Ok(Some(Message::Stats(text))) => {
                    if !self.partial_object.is_empty() {
                        bail!("the node sent an incomplete record");
                    }
                    let answer = serde_json::from_slice(&text).context("the node's statistics cannot be read")?;
                    AnswerItem::Stats(AnswerStats::from_answer(&answer).unwrap_or_default())
                }
                Ok(Some(Message::Error(reason))) => {
                    flush()?;
                    let reason = one_line(&String::from_utf8_lossy(&reason));
                    return Err(ConnectionLost(format!("the node stopped: {reason}")).into());
                }
                Err(error) => {
                    flush()?;
                    return Err(error);
                }
            }));
        }
    }

    async fn message(&mut self, flush: &mut impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<Option<Message>> {
        let early = || format!("the answer of {} ended early", self.addr);
        // Flushes when no message is ready.
        tokio::select! {
            biased;
            message = self.stream.next() => return message.with_context(early),
            () = std::future::ready(()) => flush()?,
        }
        loop {
            tokio::select! {
                biased;
                message = self.stream.next() => return message.with_context(early),
                () = self.progress.tick() => self.progress.show_found(self.records, self.bytes),
            }
        }
    }

    fn push_objects(&mut self, piece: &Bytes) -> anyhow::Result<()> {
        self.bytes += piece.len() as u64;
        let Some(end) = memrchr(b'\n', piece).map(|at| at + 1) else { return self.buffer_partial(piece) };
        let mut whole = piece.slice(..end);
        if !self.partial_object.is_empty() {
            self.partial_object.extend_from_slice(&whole);
            whole = std::mem::take(&mut self.partial_object).into();
        }
        let mut start = 0;
        for end in memchr_iter(b'\n', &whole) {
            if end > start {
                self.objects.push_back(whole.slice(start..end));
                self.records += 1;
            }
            start = end + 1;
        }
        self.buffer_partial(&piece.slice(end..))
    }

    fn buffer_partial(&mut self, partial: &[u8]) -> anyhow::Result<()> {
        if self.partial_object.len() + partial.len() > OBJECT_BYTES_MAX {
            bail!("the node sent a record of more than {OBJECT_BYTES_MAX} bytes");
        }
        self.partial_object.extend_from_slice(partial);
        Ok(())
    }
}
