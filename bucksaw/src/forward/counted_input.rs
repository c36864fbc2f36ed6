//! Counts the bytes of an input while they are read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// An input, and the number of bytes read of it.
pub(super) struct CountedInput<R> {
    input: R,
    bytes: Arc<AtomicU64>,
}

impl<R> CountedInput<R> {
    /// The input, and the counter of its bytes.
    pub(super) fn new(input: R) -> (Self, Arc<AtomicU64>) {
        let bytes = Arc::new(AtomicU64::new(0));
        (Self { input, bytes: Arc::clone(&bytes) }, bytes)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for CountedInput<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.input).poll_read(context, buffer);
        self.bytes.fetch_add((buffer.filled().len() - before) as u64, Ordering::Relaxed);
        read
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn bytes_are_counted() {
        let (mut input, bytes) = CountedInput::new(&b"one two"[..]);
        let mut read = String::new();
        input.read_to_string(&mut read).await.unwrap();
        assert_eq!((read.as_str(), bytes.load(Ordering::Relaxed)), ("one two", 7));
    }
}
