//! Bodies of calls: streams of byte pieces with backpressure and an explicit end.

use std::fmt::Debug;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::mpsc;

/// Maximum pieces between a writer and its reader.
const PIECES_IN_FLIGHT_MAX: usize = 4;

/// The reading side of a body.
#[derive(Debug)]
pub struct Body(BodySource);

#[derive(Debug)]
enum BodySource {
    Whole(Option<Bytes>),
    Channel(mpsc::Receiver<BodyPiece>),
    Stream(Box<dyn PieceStream>),
    Done,
}

/// A source of pieces other than a [`BodyWriter`]. It is not polled again after an error or the end.
pub(crate) trait PieceStream: Send + Sync + Debug {
    /// The next piece; `None` at the end.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>;
}

/// A piece, an error, or the end.
type BodyPiece = Option<io::Result<Bytes>>;

/// The writing side of a body. If it is dropped without [`BodyWriter::end`], the reader gets an error: a truncated body never
/// looks whole.
#[derive(Debug)]
pub struct BodyWriter(mpsc::Sender<BodyPiece>);

/// The reader was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reader closed the body")]
pub struct BodyClosed;

impl Body {
    /// An empty body.
    pub fn empty() -> Self {
        Self(BodySource::Done)
    }

    /// A body of one piece.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(BodySource::Whole(Some(bytes.into())))
    }

    /// A body that is written while it is read.
    #[must_use]
    pub fn channel() -> (BodyWriter, Self) {
        let (sender, receiver) = mpsc::channel(PIECES_IN_FLIGHT_MAX);
        (BodyWriter(sender), Self(BodySource::Channel(receiver)))
    }

    pub(crate) fn from_stream(pieces: impl PieceStream + 'static) -> Self {
        Self(BodySource::Stream(Box::new(pieces)))
    }

    /// The bytes left to read, if the whole body is in memory.
    pub(crate) fn remaining_bytes(&self) -> Option<u64> {
        match &self.0 {
            BodySource::Whole(bytes) => Some(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            BodySource::Done => Some(0),
            BodySource::Channel(_) | BodySource::Stream(_) => None,
        }
    }

    /// The next piece; `None` at the end and after an error.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let piece = match &mut self.0 {
            BodySource::Whole(bytes) => bytes.take().map(Ok),
            BodySource::Channel(receiver) => {
                ready!(receiver.poll_recv(context)).unwrap_or_else(|| Some(Err(io::ErrorKind::UnexpectedEof.into())))
            }
            BodySource::Stream(pieces) => ready!(pieces.poll_next(context)),
            BodySource::Done => None,
        };
        if !matches!(piece, Some(Ok(_))) {
            self.0 = BodySource::Done;
        }
        Poll::Ready(piece)
    }

    /// All remaining bytes.
    ///
    /// # Errors
    /// The error that ended the body; `FileTooLarge` beyond `bytes_max`.
    pub async fn read_all(mut self, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(piece) = self.next().await {
            let piece = piece?;
            if piece.len() > bytes_max.saturating_sub(all.len()) {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }
}

impl BodyWriter {
    /// Sends a piece. Waits while the reader is behind.
    ///
    /// # Errors
    /// [`BodyClosed`].
    pub async fn send(&self, bytes: impl Into<Bytes>) -> Result<(), BodyClosed> {
        self.0.send(Some(Ok(bytes.into()))).await.map_err(|_| BodyClosed)
    }

    /// Ends the body; the reader gets it whole.
    ///
    /// # Errors
    /// [`BodyClosed`].
    pub async fn end(self) -> Result<(), BodyClosed> {
        self.0.send(None).await.map_err(|_| BodyClosed)
    }

    /// Ends the body with an error.
    pub async fn fail(self, error: io::Error) {
        // A dropped reader needs no error.
        let _ = self.0.send(Some(Err(error))).await;
    }

    /// Resolves when the reader is dropped.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_dropped_writer_is_an_error_for_the_reader() {
        let (writer, mut body) = Body::channel();
        writer.send("some").await.unwrap();
        drop(writer);
        assert_eq!(body.next().await.unwrap().unwrap(), "some");
        assert_eq!(body.next().await.unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(body.next().await.is_none());
    }

    #[tokio::test]
    async fn an_ended_body_is_complete() {
        let (writer, body) = Body::channel();
        writer.send("a").await.unwrap();
        writer.send("b").await.unwrap();
        writer.end().await.unwrap();
        assert_eq!(body.read_all(2).await.unwrap(), b"ab");
        assert_eq!(Body::whole("abc").read_all(2).await.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(Body::empty().read_all(0).await.unwrap(), b"");
    }
}
