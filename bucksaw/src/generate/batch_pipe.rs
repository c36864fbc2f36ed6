//! Batches of lines as one stream of bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

use super::load_totals::LoadCounters;
use super::producer::LineBatch;

/// Reads the text of batches, one after the other. A batch counts as written once reading of it has begun.
pub(super) struct BatchPipe {
    batches: mpsc::Receiver<LineBatch>,
    counters: LoadCounters,
    text: Vec<u8>,
    /// Bytes of the text that were read.
    read: usize,
}

impl BatchPipe {
    pub(super) fn new(batches: mpsc::Receiver<LineBatch>, counters: LoadCounters) -> Self {
        Self { batches, counters, text: Vec::new(), read: 0 }
    }
}

impl AsyncRead for BatchPipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.read == self.text.len() {
            let Some(batch) = ready!(self.batches.poll_recv(context)) else { return Poll::Ready(Ok(())) };
            self.counters.add_written(batch.lines, batch.text.len() as u64);
            (self.text, self.read) = (batch.text, 0);
        }
        let rest = self.text.get(self.read..).unwrap_or_default();
        let taken = rest.len().min(buffer.remaining());
        buffer.put_slice(rest.get(..taken).unwrap_or_default());
        self.read += taken;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn batches_are_joined() {
        let (sender, batches) = mpsc::channel(4);
        for text in ["one\n", "", "two\nthree\n"] {
            let batch = LineBatch { text: text.into(), lines: text.lines().count() as u64 };
            sender.send(batch).await.unwrap();
        }
        drop(sender);
        let counters = LoadCounters::default();
        let mut pipe = BatchPipe::new(batches, counters.clone());
        let mut start = [0; 5];
        pipe.read_exact(&mut start).await.unwrap();
        let mut rest = String::new();
        pipe.read_to_string(&mut rest).await.unwrap();
        assert_eq!((&start, rest.as_str()), (b"one\nt", "wo\nthree\n"));
        let totals = counters.totals();
        assert_eq!((totals.written_records, totals.written_bytes), (3, 14));
    }
}
