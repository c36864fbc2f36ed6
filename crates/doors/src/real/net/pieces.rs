//! Our bodies as those of hyper, and the other way round.

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

use super::call::io_error;
use crate::Body;
use crate::body::Pieces;

/// How long what nobody wants is read, so that an answer given meanwhile is not lost to a reset connection.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// A body on its way out. An error breaks the connection, so that the other side sees it cut off.
#[derive(Debug)]
pub(super) struct Outgoing {
    body: Body,
    over: Arc<AtomicBool>,
}

impl Outgoing {
    pub(super) fn new(body: Body) -> Self {
        let over = Arc::new(AtomicBool::new(body.bytes().is_some()));
        Self { body, over }
    }

    /// Whether all of it is there to be sent.
    pub(super) fn over(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.over)
    }
}

impl body::Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let piece = ready!(self.body.poll_next(context));
        if piece.is_none() {
            self.over.store(true, Ordering::Relaxed);
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.bytes() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.bytes().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// The next bytes that came.
pub(super) fn poll_bytes(incoming: &mut body::Incoming, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
    loop {
        return Poll::Ready(match ready!(Pin::new(&mut *incoming).poll_frame(context)) {
            None => None,
            Some(Err(error)) => Some(Err(io_error(&error))),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(bytes) => Some(Ok(bytes)),
                // Trailers say nothing here.
                Err(_) => continue,
            },
        });
    }
}

/// What a call brings.
#[derive(Debug)]
pub(super) struct Brought {
    /// Gone when it is over.
    incoming: Option<body::Incoming>,
    runtime: Handle,
}

impl Brought {
    pub(super) fn body(incoming: body::Incoming, runtime: Handle) -> Body {
        if incoming.is_end_stream() {
            return Body::empty();
        }
        Body::pieces(Self { incoming: Some(incoming), runtime })
    }
}

impl Pieces for Brought {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        let piece = ready!(poll_bytes(incoming, context));
        if !matches!(piece, Some(Ok(_))) {
            self.incoming = None;
        }
        Poll::Ready(piece)
    }
}

impl Drop for Brought {
    /// Reads on for a while: a connection that is closed with bytes unread is reset, and a reset one forgets what was sent
    /// over it last, such as the words why a call is refused.
    fn drop(&mut self) {
        let Some(mut incoming) = self.incoming.take().filter(|incoming| !incoming.is_end_stream()) else { return };
        self.runtime.spawn(timeout(DRAIN_TIMEOUT, async move {
            while let Some(Ok(_)) = std::future::poll_fn(|context| poll_bytes(&mut incoming, context)).await {}
        }));
    }
}
