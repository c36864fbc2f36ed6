//! What a call carries there and back: bytes in pieces, as fast as the other side reads, with an end that is told.

use std::fmt::Debug;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::mpsc;

/// Pieces on their way between a writer and a reader beside it.
const PIECES_IN_FLIGHT_MAX: usize = 4;

/// The reading side.
#[derive(Debug)]
pub struct Body(BodySource);

#[derive(Debug)]
enum BodySource {
    Whole(Option<Bytes>),
    Channel(mpsc::Receiver<BodyPiece>),
    Stream(Box<dyn PieceStream>),
    Done,
}

/// Pieces that do not come from a [`BodyWriter`]. After an error, or the end, it is not asked again.
pub(crate) trait PieceStream: Send + Sync + Debug {
    /// The next piece; `None` at the end.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>;
}

#[derive(Debug)]
enum BodyPiece {
    Bytes(Bytes),
    End,
    Failed(io::Error),
}

/// The writing side. Dropping it without [`BodyWriter::end`] is an error for who reads: what was cut off is never taken for
/// whole.
#[derive(Debug)]
pub struct BodyWriter(mpsc::Sender<BodyPiece>);

/// Nobody reads any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the reader closed the body")]
pub struct BodyClosed;

impl Body {
    /// One without bytes.
    #[must_use]
    pub fn empty() -> Self {
        Self(BodySource::Done)
    }

    /// One whose bytes are there already.
    #[must_use]
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(BodySource::Whole(Some(bytes.into())))
    }

    /// One that is written while it is read.
    #[must_use]
    pub fn channel() -> (BodyWriter, Self) {
        let (sender, receiver) = mpsc::channel(PIECES_IN_FLIGHT_MAX);
        (BodyWriter(sender), Self(BodySource::Channel(receiver)))
    }

    /// One whose pieces come from elsewhere.
    pub(crate) fn from_stream(pieces: impl PieceStream + 'static) -> Self {
        Self(BodySource::Stream(Box::new(pieces)))
    }

    /// How much there is left, where all of it is there.
    pub(crate) fn remaining_bytes(&self) -> Option<u64> {
        match &self.0 {
            BodySource::Whole(bytes) => Some(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            BodySource::Done => Some(0),
            BodySource::Channel(_) | BodySource::Stream(_) => None,
        }
    }

    /// The next piece; `None` at the end. After an error there is nothing more.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let piece = match &mut self.0 {
            BodySource::Whole(bytes) => bytes.take().map(Ok),
            BodySource::Channel(receiver) => match ready!(receiver.poll_recv(context)) {
                Some(BodyPiece::Bytes(bytes)) => Some(Ok(bytes)),
                Some(BodyPiece::End) => None,
                Some(BodyPiece::Failed(error)) => Some(Err(error)),
                None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
            },
            BodySource::Stream(pieces) => ready!(pieces.poll_next(context)),
            BodySource::Done => None,
        };
        if !matches!(piece, Some(Ok(_))) {
            self.0 = BodySource::Done;
        }
        Poll::Ready(piece)
    }

    /// All that is left.
    ///
    /// # Errors
    /// What cut it off; `FileTooLarge` beyond `bytes_max`.
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
    /// Sends a piece, when there is room for it.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn send(&self, bytes: impl Into<Bytes>) -> Result<(), BodyClosed> {
        self.0.send(BodyPiece::Bytes(bytes.into())).await.map_err(|_| BodyClosed)
    }

    /// Says that this was all.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn end(self) -> Result<(), BodyClosed> {
        self.0.send(BodyPiece::End).await.map_err(|_| BodyClosed)
    }

    /// Says that there will be no more, and why.
    pub async fn fail(self, error: io::Error) {
        // Who no longer reads need not know.
        let _ = self.0.send(BodyPiece::Failed(error)).await;
    }

    /// Resolves when the reader closed the body.
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
