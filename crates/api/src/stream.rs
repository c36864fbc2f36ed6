//! Streams of answers that do not fit in memory, sent at the pace of the client.
//!
//! `Accept` chooses the format:
//!
//! * `application/x-ndjson` (the default): one object per line, the statistics last.
//! * `application/json`: one document with a list of the objects and the statistics.
//! * `text/plain`: the records as received, the statistics in the trailer `bucksaw-stats`.
//! * `application/x-bucksaw-stream`, for the command line: messages of one byte for the kind, four for the length
//!   (little-endian), and the content. Kinds: 1 records as received (`format=raw`), 2 NDJSON (`format=json`),
//!   3 statistics, the last message of a complete answer, 4 the text of an error that ends the answer, 5 a notice as JSON.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bucksaw_query::SinkClosed;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::error::ApiError;
use crate::render::{self, LongRecord};

/// Frames between the query and the network.
const FRAMES_QUEUED_MAX: usize = 8;

/// Free places in the channel at which a blocked sender resumes. With one place, two threads would wake each other for
/// every frame.
const RESUME_CAPACITY: usize = FRAMES_QUEUED_MAX / 2;

/// Size at which a frame is sent. Smaller frames cost CPU time each; larger ones cost memory per stalled client.
pub(crate) const FRAME_BYTES: usize = 256 << 10;

/// Larger content is sent in slices of this size, so that a stalled client holds no more than a few of them.
const SLICE_BYTES: usize = 64 << 10;

/// A client that takes nothing for this time has stalled.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// Kinds of messages.
const RAW_MESSAGE: u8 = 1;
const NDJSON_MESSAGE: u8 = 2;
const STATS_MESSAGE: u8 = 3;
const NOTICE_MESSAGE: u8 = 5;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamFormat {
    Ndjson,
    /// One document, whose beginning the handler writes.
    Json,
    Text,
    Events,
    Messages {
        raw: bool,
    },
    /// Messages of gRPC, which the caller writes.
    Grpc,
}

impl StreamFormat {
    /// The format that a client requests.
    pub(crate) fn negotiate(headers: &HeaderMap, format: Option<&str>) -> Result<Self, ApiError> {
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let raw = match format.unwrap_or_default() {
            "" | "json" => false,
            "raw" => true,
            other => return Err(ApiError::bad_request(format!("format is raw or json, not `{other}`"))),
        };
        Ok(if accept.contains("application/x-bucksaw-stream") {
            Self::Messages { raw }
        } else if accept.contains("text/event-stream") {
            Self::Events
        } else if accept.contains("application/json") && !accept.contains("application/x-ndjson") && !raw {
            Self::Json
        } else if accept.contains("text/plain") || raw {
            Self::Text
        } else {
            Self::Ndjson
        })
    }

    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Ndjson => "application/x-ndjson",
            Self::Json => "application/json",
            Self::Text => "text/plain; charset=utf-8",
            Self::Events => "text/event-stream",
            Self::Messages { .. } => "application/x-bucksaw-stream",
            Self::Grpc => "application/grpc",
        })
    }

    /// Whether records are written as received.
    pub(crate) fn is_raw(self) -> bool {
        matches!(self, Self::Text | Self::Messages { raw: true })
    }

    /// The kind of a message of records, in a stream of messages.
    fn message_kind(self) -> Option<u8> {
        match self {
            Self::Messages { raw } => Some(if raw { RAW_MESSAGE } else { NDJSON_MESSAGE }),
            _ => None,
        }
    }
}

/// The sending end of a stream.
#[derive(Clone, Debug)]
pub(crate) struct StreamSender {
    pub(crate) format: StreamFormat,
    sender: mpsc::Sender<StreamFrame>,
}

/// One place in the channel.
#[derive(Debug)]
pub(crate) enum StreamFrame {
    Bytes(Bytes),
    /// The kind and content of a message. The content may be shared with the block cache, so it is sent after the head
    /// instead of being copied behind it.
    Message(u8, Bytes),
    Trailers(HeaderMap),
}

impl StreamSender {
    /// Sends rendered records, or returns them if the channel is full.
    pub(crate) fn try_records(&self, bytes: Bytes) -> Result<Option<BlockedSend<'_>>, SinkClosed> {
        self.try_send(self.records_frame(bytes))
    }

    /// Sends a frame, or returns it if the channel is full.
    pub(crate) fn try_send(&self, frame: StreamFrame) -> Result<Option<BlockedSend<'_>>, SinkClosed> {
        match self.sender.try_send(frame) {
            Ok(()) => Ok(None),
            Err(TrySendError::Full(frame)) => Ok(Some(BlockedSend { sender: self, frame })),
            Err(TrySendError::Closed(_)) => Err(SinkClosed),
        }
    }

    /// Sends a frame, and waits while the channel to the client is full.
    async fn send(&self, frame: StreamFrame) -> Result<(), SinkClosed> {
        self.sender.send(frame).await.map_err(|_| SinkClosed)
    }

    /// Sends frames, waiting for the client.
    pub(crate) async fn send_all(&self, frames: impl Iterator<Item = StreamFrame>) -> Result<(), SinkClosed> {
        for frame in frames {
            self.send(frame).await?;
        }
        Ok(())
    }

    /// Sends a document, waiting for the client.
    pub(crate) async fn send_document(&self, document: impl Iterator<Item = Vec<u8>>) -> Result<(), SinkClosed> {
        self.send_all(document.map(|bytes| StreamFrame::Bytes(bytes.into()))).await
    }

    /// The frames of rendered records: one, or several slices.
    pub(crate) fn record_frames(&self, bytes: Bytes) -> impl Iterator<Item = StreamFrame> + use<> {
        let (mut rest, mut first) = (bytes, None);
        if rest.len() <= FRAME_BYTES + FRAME_BYTES / 8 {
            first = Some(self.records_frame(std::mem::take(&mut rest)));
        } else if let Some(kind) = self.format.message_kind() {
            first = Some(StreamFrame::Bytes(head(kind, rest.len())));
        }
        first.into_iter().chain(std::iter::from_fn(move || {
            let slice = rest.split_to(rest.len().min(SLICE_BYTES));
            (!slice.is_empty()).then_some(StreamFrame::Bytes(slice))
        }))
    }

    /// The frames of a long record.
    fn long_record_frames(&self, long: LongRecord) -> impl Iterator<Item = StreamFrame> + use<> {
        let head = self.format.message_kind().map(|kind| StreamFrame::Bytes(head(kind, long.remaining_bytes())));
        head.into_iter().chain(long.map(|bytes| StreamFrame::Bytes(bytes.into())))
    }

    /// The frames of rendered objects, and of a long record after them.
    pub(crate) fn object_frames(
        &self,
        bytes: Vec<u8>,
        long: Option<LongRecord>,
    ) -> impl Iterator<Item = StreamFrame> + use<> {
        let bytes = (!bytes.is_empty()).then(|| self.record_frames(bytes.into()));
        bytes.into_iter().flatten().chain(long.map(|long| self.long_record_frames(long)).into_iter().flatten())
    }

    /// Sends a notice, if the format has one.
    pub(crate) async fn send_notice(&self, notice: &Value) -> Result<(), SinkClosed> {
        self.send(match self.format {
            StreamFormat::Messages { .. } => StreamFrame::Message(NOTICE_MESSAGE, notice.to_string().into()),
            StreamFormat::Ndjson => StreamFrame::Bytes(format!("{notice}\n").into()),
            StreamFormat::Events => StreamFrame::Bytes(format!("event: notice\ndata: {notice}\n\n").into()),
            StreamFormat::Text | StreamFormat::Json | StreamFormat::Grpc => return Ok(()),
        })
        .await
    }

    /// Ends a complete answer with its statistics.
    pub(crate) async fn finish(&self, stats: &Value) -> Result<(), SinkClosed> {
        let object = || json!({ "stats": stats });
        self.send(match self.format {
            StreamFormat::Messages { .. } => StreamFrame::Message(STATS_MESSAGE, object().to_string().into()),
            StreamFormat::Text => {
                let stats = HeaderValue::from_str(&stats.to_string()).map(|stats| (STATS_TRAILER, stats));
                StreamFrame::Trailers(HeaderMap::from_iter(stats.ok()))
            }
            StreamFormat::Ndjson | StreamFormat::Events => StreamFrame::Bytes(format!("{}\n", object()).into()),
            StreamFormat::Json => StreamFrame::Bytes(render::end_list(stats).into()),
            StreamFormat::Grpc => return Ok(()),
        })
        .await
    }

    /// Ends an answer with trailers.
    pub(crate) async fn finish_with(&self, trailers: HeaderMap) -> Result<(), SinkClosed> {
        self.send(StreamFrame::Trailers(trailers)).await
    }

    /// Resolves when the client has closed the stream.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let sender = self.sender.clone();
        async move { sender.closed().await }
    }

    fn records_frame(&self, bytes: Bytes) -> StreamFrame {
        match self.format.message_kind() {
            Some(kind) => StreamFrame::Message(kind, bytes),
            None => StreamFrame::Bytes(bytes),
        }
    }
}

/// A frame that did not fit in the channel.
#[derive(Debug)]
pub(crate) struct BlockedSend<'a> {
    sender: &'a StreamSender,
    frame: StreamFrame,
}

impl BlockedSend<'_> {
    /// Sends the frame from a thread that may block. Calls `stalled` once if the client takes nothing for a while.
    pub(crate) fn send(self, runtime: &Handle, stalled: impl FnOnce()) -> Result<(), SinkClosed> {
        let sender = &self.sender.sender;
        // The reserved places are released at once; no other task sends on this channel.
        let places = async { tokio::time::timeout(STALLED_AFTER, sender.reserve_many(RESUME_CAPACITY)).await.is_ok() };
        if !runtime.block_on(places) && sender.capacity() == 0 {
            stalled();
        }
        sender.blocking_send(self.frame).map_err(|_| SinkClosed)
    }

    /// Sends the frame from a task.
    pub(crate) async fn send_async(self) -> Result<(), SinkClosed> {
        self.sender.send(self.frame).await
    }
}

const STATS_TRAILER: HeaderName = HeaderName::from_static("bucksaw-stats");

/// The head of a message.
fn head(kind: u8, content_bytes: usize) -> Bytes {
    let length = u32::try_from(content_bytes).unwrap_or(u32::MAX);
    let [a, b, c, d] = length.to_le_bytes();
    Bytes::copy_from_slice(&[kind, a, b, c, d])
}

/// A stream and the response that carries it.
pub(crate) fn open_stream(format: StreamFormat) -> (StreamSender, Response) {
    let (sender, receiver) = mpsc::channel(FRAMES_QUEUED_MAX);
    let body = Body::new(StreamBody { receiver, content: None }.boxed_unsync());
    let mut response = body.into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, format.content_type());
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if format == StreamFormat::Text {
        response.headers_mut().insert(header::TRAILER, STATS_TRAILER.into());
    }
    (StreamSender { format, sender }, response)
}

struct StreamBody {
    receiver: mpsc::Receiver<StreamFrame>,
    /// The content of a message whose head was sent.
    content: Option<Bytes>,
}

impl hyper::body::Body for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(content) = self.content.take() {
            return Poll::Ready(Some(Ok(Frame::data(content))));
        }
        self.receiver.poll_recv(context).map(|frame| {
            Some(Ok(match frame? {
                StreamFrame::Bytes(bytes) => Frame::data(bytes),
                StreamFrame::Message(kind, content) => Frame::data(head(kind, self.content.insert(content).len())),
                StreamFrame::Trailers(trailers) => Frame::trailers(trailers),
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a client counts as stalled that takes a frame after each of these pauses.
    fn stalls(pauses: &'static [u64]) -> usize {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (sender, response) = open_stream(StreamFormat::Text);
        let client = runtime.spawn(async move {
            let mut body = response.into_body();
            for pause in pauses {
                tokio::time::sleep(Duration::from_millis(*pause)).await;
                body.frame().await.unwrap().unwrap();
            }
        });
        let mut stalls = 0;
        while let Ok(blocked) = sender.try_records(Bytes::from_static(b"x")) {
            if blocked.is_some_and(|blocked| blocked.send(runtime.handle(), || stalls += 1).is_err()) {
                break;
            }
        }
        runtime.block_on(client).unwrap();
        stalls
    }

    #[test]
    fn long_records_of_a_tail_are_sent_in_slices() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let records: Bytes = (0..SLICE_BYTES * (FRAMES_QUEUED_MAX + 1) + 7).map(|at| at as u8).collect();
        for format in [StreamFormat::Text, StreamFormat::Messages { raw: true }] {
            let (sender, response) = open_stream(format);
            let sent = sender.record_frames(records.clone());
            let sent = runtime.spawn(async move { sender.send_all(sent).await.unwrap() });
            let mut body = response.into_body();
            let mut frames: Vec<Bytes> = Vec::new();
            while let Some(frame) = runtime.block_on(body.frame()) {
                frames.push(frame.unwrap().into_data().unwrap());
            }
            runtime.block_on(sent).unwrap();
            let longest = frames.iter().map(Bytes::len).max();
            assert_eq!(longest, Some(SLICE_BYTES), "{format:?}");
            let head = if format == StreamFormat::Text { Bytes::new() } else { head(1, records.len()) };
            assert_eq!(frames.concat(), [&head[..], &records].concat(), "{format:?}");
        }
    }

    #[test]
    fn a_client_that_reads_slowly_has_not_stalled() {
        assert_eq!(stalls(&[0, 300, 300, 300, 300, 300, 300]), 0);
        assert_eq!(stalls(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2_500, 0]), 1);
    }
}
