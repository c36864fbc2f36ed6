//! Answers that are longer than memory: made on a thread of their own, sent as fast as the client reads.
//!
//! Three forms, chosen by `Accept`:
//!
//! * `application/x-ndjson` (the default): an object a line, the stats in the last.
//! * `text/plain`: the records as they came in. The stats stand in the trailer `bucksaw-stats`.
//! * `application/x-bucksaw-stream`, for our own clients, who want to tell data from talk without parsing each line:
//!   messages of a byte for the kind, four for the length (little-endian), and so many bytes. Kinds: 1 records as they came
//!   in (`format=raw`), 2 objects, one a line (`format=json`), 3 the stats, the last message of a whole answer, 4 the text
//!   of an error that ends the answer, 5 a notice as an object.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Frame;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::error::ApiError;
use crate::render::{self, LongRecord};

/// Pieces between the maker and the network.
const FRAMES_QUEUED_MAX: usize = 8;

/// A maker that had to wait goes on when there is room for so many: for each piece by itself two threads would have to wake
/// each other in turn.
const RESUME_CAPACITY: usize = FRAMES_QUEUED_MAX / 2;

/// A piece is sent when it has so many bytes. With much less the network's work for each shows; with more, clients who
/// stall cost more, for each has some pieces on its way.
pub(crate) const FRAME_BYTES: usize = 256 << 10;

/// Bytes of a slice: what is longer is sent in slices, so that a client that stalls holds no more than a few of them.
const SLICE_BYTES: usize = 64 << 10;

/// A reader who takes nothing for so long has stalled, and is not prepared for any more.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamFormat {
    Ndjson,
    /// One document, of which the maker writes all.
    Json,
    Text,
    Events,
    Messages {
        raw: bool,
    },
}

impl StreamFormat {
    /// The form that a client asks for.
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
        })
    }

    /// Whether records are written as they came in.
    pub(crate) fn is_raw(self) -> bool {
        matches!(self, Self::Text | Self::Messages { raw: true })
    }
}

/// The end of a stream that the maker holds.
#[derive(Clone, Debug)]
pub(crate) struct StreamSender {
    format: StreamFormat,
    sender: mpsc::Sender<StreamFrame>,
}

/// What goes through the channel: one place in it, however it is sent.
#[derive(Debug)]
pub(crate) enum StreamFrame {
    Bytes(Bytes),
    /// A message of this kind. Its content may be shared with what was found, so it is sent behind the message's head and
    /// not copied.
    Message(u8, Bytes),
    Trailers(HeaderMap),
}

/// Nobody reads any more.
#[derive(Debug)]
pub(crate) struct ClientGone;

impl StreamSender {
    /// Sends records that were written in the stream's form; `Some` when that has to wait for a slow client.
    pub(crate) fn try_records(&self, bytes: Bytes) -> Result<Option<BlockedSend<'_>>, ClientGone> {
        self.try_send(self.records_frame(bytes))
    }

    /// Sends a piece; `Some` when that has to wait for a slow client.
    pub(crate) fn try_send(&self, piece: StreamFrame) -> Result<Option<BlockedSend<'_>>, ClientGone> {
        match self.sender.try_send(piece) {
            Ok(()) => Ok(None),
            Err(TrySendError::Full(piece)) => Ok(Some(BlockedSend { sender: self, frame: piece })),
            Err(TrySendError::Closed(_)) => Err(ClientGone),
        }
    }

    /// Sends records from the runtime.
    pub(crate) async fn send_records(&self, bytes: Bytes) -> Result<(), ClientGone> {
        for piece in self.record_frames(bytes) {
            self.sender.send(piece).await.map_err(|_| ClientGone)?;
        }
        Ok(())
    }

    /// Sends a long record from the runtime.
    pub(crate) async fn send_long(&self, long: LongRecord) -> Result<(), ClientGone> {
        for piece in self.long_record_frames(long) {
            self.sender.send(piece).await.map_err(|_| ClientGone)?;
        }
        Ok(())
    }

    /// Records that were written in the stream's form. What is longer than a piece takes several places.
    pub(crate) fn record_frames(&self, bytes: Bytes) -> impl Iterator<Item = StreamFrame> + use<> {
        let (mut rest, mut whole) = (bytes, None);
        if rest.len() <= FRAME_BYTES + FRAME_BYTES / 8 {
            whole = Some(self.records_frame(std::mem::take(&mut rest)));
        } else if let StreamFormat::Messages { raw } = self.format {
            // The length of a message stands before it, so its content may come in slices.
            whole = Some(StreamFrame::Bytes(head(kind(raw), rest.len())));
        }
        whole.into_iter().chain(std::iter::from_fn(move || {
            let slice = rest.split_to(rest.len().min(SLICE_BYTES));
            (!slice.is_empty()).then_some(StreamFrame::Bytes(slice))
        }))
    }

    /// The pieces of a long record.
    pub(crate) fn long_record_frames(&self, long: LongRecord) -> impl Iterator<Item = StreamFrame> + use<> {
        let head = match self.format {
            StreamFormat::Messages { raw } => Some(StreamFrame::Bytes(head(kind(raw), long.remaining_bytes()))),
            _ => None,
        };
        head.into_iter().chain(long.map(|bytes| StreamFrame::Bytes(bytes.into())))
    }

    /// Objects that were written in the stream's form, and a long one behind them.
    pub(crate) fn object_frames(
        &self,
        bytes: Vec<u8>,
        long: Option<LongRecord>,
    ) -> impl Iterator<Item = StreamFrame> + use<> {
        let bytes = (!bytes.is_empty()).then(|| self.record_frames(bytes.into()));
        bytes.into_iter().flatten().chain(long.map(|long| self.long_record_frames(long)).into_iter().flatten())
    }

    /// A notice from the runtime, where the form has a place for it.
    pub(crate) async fn send_notice(&self, object: &serde_json::Value) -> Result<(), ClientGone> {
        let text = object.to_string();
        let piece = match self.format {
            StreamFormat::Messages { .. } => StreamFrame::Message(5, text.into()),
            StreamFormat::Ndjson => StreamFrame::Bytes(format!("{text}\n").into()),
            StreamFormat::Events => StreamFrame::Bytes(format!("event: notice\ndata: {text}\n\n").into()),
            StreamFormat::Text | StreamFormat::Json => return Ok(()),
        };
        self.sender.send(piece).await.map_err(|_| ClientGone)
    }

    /// Sends the bytes of a document from the runtime.
    pub(crate) async fn send_document(&self, document: impl Iterator<Item = Vec<u8>>) -> Result<(), ClientGone> {
        for bytes in document {
            self.sender.send(StreamFrame::Bytes(bytes.into())).await.map_err(|_| ClientGone)?;
        }
        Ok(())
    }

    /// Ends a complete answer with its statistics.
    pub(crate) async fn finish(&self, stats: &serde_json::Value) -> Result<(), ClientGone> {
        self.sender.send(self.final_frame(stats)).await.map_err(|_| ClientGone)
    }

    fn final_frame(&self, stats: &serde_json::Value) -> StreamFrame {
        match self.format {
            StreamFormat::Messages { .. } => StreamFrame::Message(3, wrap(stats).into()),
            StreamFormat::Text => {
                let mut trailers = HeaderMap::new();
                if let Ok(value) = HeaderValue::from_str(&stats.to_string()) {
                    trailers.insert("bucksaw-stats", value);
                }
                StreamFrame::Trailers(trailers)
            }
            StreamFormat::Ndjson | StreamFormat::Events => StreamFrame::Bytes(format!("{}\n", wrap(stats)).into()),
            // It ends the list, which has begun.
            StreamFormat::Json => StreamFrame::Bytes(render::end_list(stats).into()),
        }
    }

    /// Resolves when the reader has closed the body.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let sender = self.sender.clone();
        async move { sender.closed().await }
    }

    pub(crate) fn format(&self) -> StreamFormat {
        self.format
    }

    fn records_frame(&self, bytes: Bytes) -> StreamFrame {
        match self.format {
            StreamFormat::Messages { raw } => StreamFrame::Message(kind(raw), bytes),
            _ => StreamFrame::Bytes(bytes),
        }
    }
}

/// Records that wait for a slow client.
#[derive(Debug)]
pub(crate) struct BlockedSend<'a> {
    sender: &'a StreamSender,
    frame: StreamFrame,
}

impl BlockedSend<'_> {
    /// Waits, and sends them; for a thread, not for the runtime. `stalled` is called once when the client takes nothing for
    /// long.
    pub(crate) fn send(self, runtime: &Handle, stalled: impl FnOnce()) -> Result<(), ClientGone> {
        let sender = &self.sender.sender;
        // Given back at once: nobody else sends here.
        let room = async { tokio::time::timeout(STALLED_AFTER, sender.reserve_many(RESUME_CAPACITY)).await.is_ok() };
        if !runtime.block_on(room) && sender.capacity() == 0 {
            stalled();
        }
        sender.blocking_send(self.frame).map_err(|_| ClientGone)
    }

    /// The same from the runtime.
    pub(crate) async fn send_async(self) -> Result<(), ClientGone> {
        self.sender.sender.send(self.frame).await.map_err(|_| ClientGone)
    }
}

fn wrap(stats: &serde_json::Value) -> String {
    serde_json::json!({ "stats": stats }).to_string()
}

/// The kind of a message of records.
fn kind(raw: bool) -> u8 {
    if raw { 1 } else { 2 }
}

/// What stands before the content of a message.
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
        response.headers_mut().insert(header::TRAILER, HeaderValue::from_static("bucksaw-stats"));
    }
    (StreamSender { format, sender }, response)
}

struct StreamBody {
    receiver: mpsc::Receiver<StreamFrame>,
    /// Of a message whose head was sent.
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
        self.receiver.poll_recv(context).map(|piece| {
            Some(Ok(match piece? {
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

    /// How often a client is taken for stalled that takes a piece after each of these times.
    fn stalls(pauses: &'static [u64]) -> usize {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (pieces, response) = open_stream(StreamFormat::Text);
        let client = runtime.spawn(async move {
            let mut body = response.into_body();
            for pause in pauses {
                tokio::time::sleep(Duration::from_millis(*pause)).await;
                body.frame().await.unwrap().unwrap();
            }
        });
        let mut stalls = 0;
        while let Ok(sent) = pieces.try_records(Bytes::from_static(b"x")) {
            let over = match sent {
                Some(waiting) => waiting.send(runtime.handle(), || stalls += 1).is_err(),
                None => false,
            };
            if over {
                break;
            }
        }
        runtime.block_on(client).unwrap();
        stalls
    }

    #[test]
    fn long_records_of_a_follower_take_several_places() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let records: Bytes = (0..SLICE_BYTES * (FRAMES_QUEUED_MAX + 1) + 7).map(|at| at as u8).collect();
        for form in [StreamFormat::Text, StreamFormat::Messages { raw: true }] {
            let (pieces, response) = open_stream(form);
            let given = records.clone();
            let sent = runtime.spawn(async move { pieces.send_records(given).await.unwrap() });
            let mut body = response.into_body();
            let mut frames: Vec<Bytes> = Vec::new();
            while let Some(frame) = runtime.block_on(body.frame()) {
                frames.push(frame.unwrap().into_data().unwrap());
            }
            runtime.block_on(sent).unwrap();
            let longest = frames.iter().map(Bytes::len).max();
            assert_eq!(longest, Some(SLICE_BYTES), "{form:?}");
            let head = if form == StreamFormat::Text { Bytes::new() } else { head(1, records.len()) };
            assert_eq!(frames.concat(), [&head[..], &records].concat(), "{form:?}");
        }
    }

    #[test]
    fn a_client_that_reads_slowly_has_not_stalled() {
        assert_eq!(stalls(&[0, 300, 300, 300, 300, 300, 300]), 0);
        assert_eq!(stalls(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2_500, 0]), 1);
    }
}
