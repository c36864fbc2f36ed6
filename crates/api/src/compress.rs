//! Compresses answers with gzip or zstd, as the client accepts.
//!
//! An answer is flushed whenever the query has nothing to send, so the first records arrive as early as without
//! compression. Tails and server-sent events are not compressed, because each record would be flushed alone and each
//! open tail would hold an encoder.
//!
//! A compressed answer takes up to a megabyte: an encoder of up to 600 kB, a frame and the output. The memory plan
//! limits their number; further answers are sent uncompressed. A slow reader takes no more memory, because a frame is
//! compressed only when the connection accepts it.
//!
//! `tower-http` and `async-compression` are not used. Neither passes trailers on, and the former cannot set the window
//! of zstd, which takes some megabytes per answer by default.

use std::io::{self, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use axum::middleware::Next;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Frame};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::accept_encoding::choose;

/// The base-two logarithm of the window of zstd, and so of its blocks. With the default, an encoder takes megabytes.
const WINDOW_LOG: u32 = 16;

/// At this level both compress log lines to a fifth or less; higher levels take a multiple of the time.
const LEVEL: u32 = 1;

/// Bytes that are compressed at a time: less than a millisecond of work.
const SLICE_BYTES: usize = 32 << 10;

/// Size at which output is sent, and bytes of input after which it is sent in any case.
const OUTPUT_BYTES: usize = 32 << 10;
const INPUT_BYTES_MAX: usize = 512 << 10;

/// Shorter answers are sent as they are.
const ANSWER_BYTES_MIN: u64 = 1 << 10;

/// The encodings, the preferred one first.
const ENCODINGS: [&str; 2] = ["zstd", "gzip"];

/// The call whose records must not wait.
const TAIL_PATH: &str = "/api/v1/tail";

/// Compresses the answer to a request, if its client and its kind allow.
pub(crate) async fn compress(State(permits): State<Arc<Semaphore>>, request: Request, next: Next) -> Response<Body> {
    let path = request.uri().path();
    let is_compressible = (path.starts_with("/api/") || path == "/metrics") && path != TAIL_PATH;
    let encoding = choose(request.headers(), ENCODINGS).filter(|_| is_compressible && request.method() != Method::HEAD);
    let mut response = next.run(request).await;
    if !is_compressible {
        return response;
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    let is_short = response.body().size_hint().exact().is_some_and(|bytes| bytes < ANSWER_BYTES_MIN);
    let Some(encoding) = encoding.filter(|_| !is_short && response.status() == StatusCode::OK) else { return response };
    let (Ok(permit), Ok(encoder)) = (permits.try_acquire_owned(), AnswerEncoder::new(encoding)) else {
        return response;
    };
    response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    response.headers_mut().remove(header::CONTENT_LENGTH);
    response.map(|body| Body::new(CompressedBody::new(body, encoder, permit).boxed_unsync()))
}

enum AnswerEncoder {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl AnswerEncoder {
    fn new(encoding: &str) -> io::Result<Self> {
        if encoding == "gzip" {
            return Ok(Self::Gzip(GzEncoder::new(Vec::new(), Compression::new(LEVEL))));
        }
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), LEVEL as i32)?;
        encoder.window_log(WINDOW_LOG)?;
        Ok(Self::Zstd(encoder))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    /// Flushes all input to the output.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }

    fn output(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        }
    }

    /// Ends the stream and returns the rest of the output.
    fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

/// A body that compresses another.
struct CompressedBody {
    inner: Body,
    /// `None` after the end of the data.
    encoder: Option<AnswerEncoder>,
    /// Not yet compressed.
    input: Bytes,
    /// Bytes compressed since output was last sent.
    unsent: usize,
    trailers: Option<HeaderMap>,
    _permit: OwnedSemaphorePermit,
}

impl CompressedBody {
    fn new(inner: Body, encoder: AnswerEncoder, permit: OwnedSemaphorePermit) -> Self {
        let (encoder, input) = (Some(encoder), Bytes::new());
        Self { inner, encoder, input, unsent: 0, trailers: None, _permit: permit }
    }

    /// Compresses a part of the input. Returns output that should be sent.
    fn compress_slice(&mut self) -> io::Result<Option<Bytes>> {
        let Some(encoder) = &mut self.encoder else { return Ok(None) };
        let slice = self.input.split_to(self.input.len().min(SLICE_BYTES));
        encoder.write(&slice)?;
        self.unsent += slice.len();
        if encoder.output().len() < OUTPUT_BYTES && self.unsent < INPUT_BYTES_MAX {
            return Ok(None);
        }
        // Output of an encoder that has not reached the size needs a flush to appear at all.
        if encoder.output().len() < OUTPUT_BYTES {
            encoder.flush()?;
        }
        Ok(self.take_output())
    }

    /// Flushes compressed data that was not sent.
    fn flush(&mut self) -> io::Result<Option<Bytes>> {
        match &mut self.encoder {
            Some(encoder) if self.unsent > 0 => encoder.flush()?,
            _ => return Ok(None),
        }
        Ok(self.take_output())
    }

    fn take_output(&mut self) -> Option<Bytes> {
        self.unsent = 0;
        let output = std::mem::take(self.encoder.as_mut()?.output());
        (!output.is_empty()).then(|| output.into())
    }

    /// Ends the compressed data.
    fn finish(&mut self) -> io::Result<Option<Bytes>> {
        let Some(encoder) = self.encoder.take() else { return Ok(None) };
        Ok(Some(encoder.finish()?.into()))
    }

    /// The next output, or trailers; `None` at the end.
    fn poll_output(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        loop {
            let output = if !self.input.is_empty() {
                self.compress_slice()
            } else if self.encoder.is_none() {
                return Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
            } else {
                match Pin::new(&mut self.inner).poll_frame(context) {
                    Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                        Ok(data) => {
                            self.input = data;
                            continue;
                        }
                        Err(frame) => {
                            self.trailers = frame.into_trailers().ok();
                            self.finish()
                        }
                    },
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                    Poll::Ready(None) => self.finish(),
                    Poll::Pending => match self.flush() {
                        Ok(None) => return Poll::Pending,
                        flushed => flushed,
                    },
                }
            };
            match output {
                Ok(None) => {}
                Ok(Some(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Err(error) => return Poll::Ready(Some(Err(axum::Error::new(error)))),
            }
        }
    }
}

impl hyper::body::Body for CompressedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.poll_output(context)
    }
}

#[cfg(test)]
mod tests;
