//! What a call carries there and back: bytes in pieces, as fast as the other side reads, with an end that is told.

use std::fmt::Debug;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::mpsc;

/// Pieces on their way between a writer and a reader beside it.
const PIECES: usize = 4;

/// The reading side.
#[derive(Debug)]
pub struct Body(Source);

#[derive(Debug)]
enum Source {
    Whole(Option<Bytes>),
    Pieces(mpsc::Receiver<Piece>),
    Others(Box<dyn Pieces>),
    Over,
}

/// Pieces that do not come from a [`BodyWriter`]. After an error, or the end, it is not asked again.
pub(crate) trait Pieces: Send + Sync + Debug {
    /// The next piece; `None` at the end.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>>;
}

#[derive(Debug)]
enum Piece {
    Bytes(Bytes),
    End,
    Failed(io::Error),
}

/// The writing side. Dropping it without [`BodyWriter::end`] is an error for who reads: what was cut off is never taken for
/// whole.
#[derive(Debug)]
pub struct BodyWriter(mpsc::Sender<Piece>);

/// Nobody reads any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody reads any more")]
pub struct Gone;

impl Body {
    /// One without bytes.
    #[must_use]
    pub fn empty() -> Self {
        Self(Source::Over)
    }

    /// One whose bytes are there already.
    #[must_use]
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Source::Whole(Some(bytes.into())))
    }

    /// One that is written while it is read.
    #[must_use]
    pub fn channel() -> (BodyWriter, Self) {
        let (sender, receiver) = mpsc::channel(PIECES);
        (BodyWriter(sender), Self(Source::Pieces(receiver)))
    }

    /// One whose pieces come from elsewhere.
    pub(crate) fn pieces(pieces: impl Pieces + 'static) -> Self {
        Self(Source::Others(Box::new(pieces)))
    }

    /// How much there is left, where all of it is there.
    pub(crate) fn bytes(&self) -> Option<u64> {
        match &self.0 {
            Source::Whole(bytes) => Some(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Source::Over => Some(0),
            Source::Pieces(_) | Source::Others(_) => None,
        }
    }

    /// The next piece; `None` at the end. After an error there is nothing more.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        let piece = match &mut self.0 {
            Source::Whole(bytes) => bytes.take().map(Ok),
            Source::Pieces(receiver) => match ready!(receiver.poll_recv(context)) {
                Some(Piece::Bytes(bytes)) => Some(Ok(bytes)),
                Some(Piece::End) => None,
                Some(Piece::Failed(error)) => Some(Err(error)),
                None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
            },
            Source::Others(pieces) => ready!(pieces.poll_next(context)),
            Source::Over => None,
        };
        if !matches!(piece, Some(Ok(_))) {
            self.0 = Source::Over;
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
    pub async fn send(&self, bytes: impl Into<Bytes>) -> Result<(), Gone> {
        self.0.send(Piece::Bytes(bytes.into())).await.map_err(|_| Gone)
    }

    /// Says that this was all.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn end(self) -> Result<(), Gone> {
        self.0.send(Piece::End).await.map_err(|_| Gone)
    }

    /// Says that there will be no more, and why.
    pub async fn fail(self, error: io::Error) {
        // Who no longer reads need not know.
        let _ = self.0.send(Piece::Failed(error)).await;
    }

    /// Resolves when nobody reads any more.
    pub async fn gone(&self) {
        self.0.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_cut_off_is_not_whole() {
        let (writer, mut body) = Body::channel();
        writer.send("some").await.unwrap();
        drop(writer);
        assert_eq!(body.next().await.unwrap().unwrap(), "some");
        assert_eq!(body.next().await.unwrap().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(body.next().await.is_none());
    }

    #[tokio::test]
    async fn an_end_is_told() {
        let (writer, body) = Body::channel();
        writer.send("a").await.unwrap();
        writer.send("b").await.unwrap();
        writer.end().await.unwrap();
        assert_eq!(body.read_all(2).await.unwrap(), b"ab");
        assert_eq!(Body::whole("abc").read_all(2).await.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(Body::empty().read_all(0).await.unwrap(), b"");
    }
}
