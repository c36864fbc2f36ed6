//! Conversion between [`Body`] and the bodies of hyper.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::Body;
use crate::body::PieceStream;

/// How long a dropped request body is still read, so that closing the connection does not discard the response.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum bytes given to hyper at a time. It copies them into a buffer of the connection that never shrinks.
const FRAME_BYTES_MAX: usize = 64 << 10;

/// A body being sent. An error breaks the connection, so that the peer sees a truncated body.
#[derive(Debug)]
pub(super) struct OutgoingBody {
    body: Body,
    /// The rest of a piece longer than [`FRAME_BYTES_MAX`].
    rest: Bytes,
    is_complete: Arc<AtomicBool>,
}

impl OutgoingBody {
    pub(super) fn new(body: Body) -> Self {
        let is_complete = Arc::new(AtomicBool::new(body.remaining_bytes().is_some()));
        Self { body, rest: Bytes::new(), is_complete }
    }

    /// Whether no piece is awaited from the writer.
    pub(super) fn completion_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_complete)
    }
}

impl body::Body for OutgoingBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.rest.is_empty() {
            self.rest = match ready!(self.body.poll_next(context)) {
                None => {
                    self.is_complete.store(true, Ordering::Relaxed);
                    return Poll::Ready(None);
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(piece)) => piece,
            };
        }
        let length = self.rest.len().min(FRAME_BYTES_MAX);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.remaining_bytes() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        self.body.remaining_bytes().map_or_else(SizeHint::default, |bytes| SizeHint::with_exact(bytes + rest))
    }
}

/// The next received bytes. Trailers are ignored.
pub(super) fn poll_bytes(incoming: &mut body::Incoming, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
    loop {
        match ready!(Pin::new(&mut *incoming).poll_frame(context)) {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(io_error(&error)))),
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    return Poll::Ready(Some(Ok(bytes)));
                }
            }
        }
    }
}

/// The body of an incoming call.
#[derive(Debug)]
pub(super) struct IncomingBody {
    /// `None` after the end.
    incoming: Option<body::Incoming>,
    runtime: Handle,
}

impl IncomingBody {
    pub(super) fn body(incoming: body::Incoming, runtime: Handle) -> Body {
        if incoming.is_end_stream() {
            return Body::empty();
        }
        Body::from_stream(Self { incoming: Some(incoming), runtime })
    }
}

impl PieceStream for IncomingBody {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        let piece = ready!(poll_bytes(incoming, context));
        if !matches!(piece, Some(Ok(_))) {
            self.incoming = None;
        }
        Poll::Ready(piece)
    }
}

impl Drop for IncomingBody {
    /// Reads on until [`DRAIN_TIMEOUT`]: closing a connection with unread bytes resets it, and a reset discards the
    /// last bytes sent, such as the reason of a refusal.
    fn drop(&mut self) {
        let Some(mut incoming) = self.incoming.take().filter(|incoming| !incoming.is_end_stream()) else { return };
        self.runtime.spawn(timeout(DRAIN_TIMEOUT, async move {
            while let Some(Ok(_)) = std::future::poll_fn(|context| poll_bytes(&mut incoming, context)).await {}
        }));
    }
}

/// The I/O error inside an error of hyper, or one of the closest kind.
pub(super) fn io_error(error: &hyper::Error) -> io::Error {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(cause) = cause.downcast_ref::<io::Error>() {
            return io::Error::new(cause.kind(), cause.to_string());
        }
        source = cause.source();
    }
    let kind = if error.is_incomplete_message() {
        io::ErrorKind::UnexpectedEof
    } else if error.is_parse() {
        io::ErrorKind::InvalidData
    } else if error.is_timeout() {
        io::ErrorKind::TimedOut
    } else {
        io::ErrorKind::ConnectionAborted
    };
    io::Error::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_long_piece_is_sent_in_several_frames() {
        let text: Vec<u8> = (0..3 * FRAME_BYTES_MAX + 5).map(|at| at as u8).collect();
        let mut out = OutgoingBody::new(Body::whole(text.clone()));
        let (mut sent, mut context) = (Vec::new(), Context::from_waker(Waker::noop()));
        while sent.len() < text.len() {
            assert_eq!(out.size_hint().exact(), Some((text.len() - sent.len()) as u64));
            assert!(!body::Body::is_end_stream(&out));
            let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut out).poll_frame(&mut context) else { panic!("no frame") };
            let part = frame.into_data().unwrap();
            assert!(part.len() <= FRAME_BYTES_MAX);
            sent.extend_from_slice(&part);
        }
        assert!(sent == text && body::Body::is_end_stream(&out));
    }
}
