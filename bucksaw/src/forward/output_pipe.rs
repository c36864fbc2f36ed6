//! The output of a command, which ends also if a process that the command started keeps the pipe open.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::watch;

/// The longest that a pipe can be without privileges. What the command wrote before its end is among as many bytes.
const PIPE_BYTES_MAX: usize = 1 << 20;

/// Resolves when the time after the end of the command is over.
type Deadline = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A pipe that ends some time after the command, when all that the command wrote was read.
pub(super) struct OutputPipe<R> {
    pipe: R,
    has_ended: watch::Receiver<bool>,
    /// `None` once it has passed.
    deadline: Option<Deadline>,
    /// Bytes that were read after the end of the command.
    late_bytes: usize,
    /// Whether the pipe was left open.
    is_left: Arc<AtomicBool>,
}

impl<R> OutputPipe<R> {
    /// The output of a command that ends when `has_ended` becomes true, which is before the deadline. `is_left` becomes true if
    /// the pipe is left open.
    pub(super) fn new(
        pipe: R,
        has_ended: &watch::Receiver<bool>,
        deadline: impl Future<Output = ()> + Send + 'static,
        is_left: &Arc<AtomicBool>,
    ) -> Self {
        let (has_ended, is_left) = (has_ended.clone(), Arc::clone(is_left));
        Self { pipe, has_ended, deadline: Some(Box::pin(deadline)), late_bytes: 0, is_left }
    }

    fn leave(&self) -> Poll<io::Result<()>> {
        self.is_left.store(true, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for OutputPipe<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.deadline.as_mut().is_some_and(|deadline| deadline.as_mut().poll(context).is_ready()) {
            self.deadline = None;
        }
        let is_due = self.deadline.is_none();
        if is_due && self.late_bytes >= PIPE_BYTES_MAX {
            return self.leave();
        }
        let is_late = *self.has_ended.borrow();
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.pipe).poll_read(context, buffer);
        if is_due && read.is_pending() {
            return self.leave();
        }
        if is_late {
            self.late_bytes += buffer.filled().len() - before;
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::sync::oneshot;

    use super::*;

    /// A command that has written, and its output.
    struct Written {
        writer: DuplexStream,
        output: OutputPipe<DuplexStream>,
        end: watch::Sender<bool>,
        deadline: oneshot::Sender<()>,
        is_left: Arc<AtomicBool>,
    }

    async fn written(text: &[u8]) -> Written {
        let ((mut writer, pipe), (end, has_ended)) = (duplex(2 << 20), watch::channel(false));
        let ((deadline, passed), is_left) = (oneshot::channel(), Arc::<AtomicBool>::default());
        writer.write_all(text).await.unwrap();
        let passed = async { drop(passed.await) };
        let output = OutputPipe::new(pipe, &has_ended, passed, &is_left);
        Written { writer, output, end, deadline, is_left }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_pipe_that_is_left_open_ends_at_the_deadline() {
        let Written { mut writer, mut output, end, deadline, is_left } = written(b"last words").await;
        let mut read = [0; 10];
        output.read_exact(&mut read).await.unwrap();
        end.send_replace(true);
        let mut rest = String::new();
        let reading = output.read_to_string(&mut rest);
        let child = async {
            writer.write_all(b" of a child").await.unwrap();
            tokio::task::yield_now().await;
            // The reader waits, and is woken by the deadline.
            deadline.send(()).unwrap();
        };
        let (length, ()) = tokio::join!(reading, child);
        assert_eq!((length.unwrap(), rest.as_str(), is_left.load(Ordering::Relaxed)), (11, " of a child", true));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_closed_pipe_ends_at_once() {
        let Written { writer, mut output, end, deadline: _deadline, is_left } = written(b"a").await;
        drop(writer);
        end.send_replace(true);
        let mut read = String::new();
        output.read_to_string(&mut read).await.unwrap();
        assert_eq!((read.as_str(), is_left.load(Ordering::Relaxed)), ("a", false));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_child_that_never_stops_writing_is_left() {
        let Written { mut writer, mut output, end, deadline, is_left } = written(b"").await;
        end.send_replace(true);
        deadline.send(()).unwrap();
        let child = async {
            loop {
                writer.write_all(&[b'x'; 1_000]).await.unwrap();
            }
        };
        let mut read = Vec::new();
        tokio::select! {
            biased;
            () = child => {}
            length = output.read_to_end(&mut read) => assert!(length.unwrap() >= PIPE_BYTES_MAX),
        }
        assert!(is_left.load(Ordering::Relaxed));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_the_command_wrote_is_read_also_after_the_deadline() {
        // While no node takes batches, nothing is read.
        let Written { writer: _writer, mut output, end, deadline, is_left } = written(&[b'x'; 60_000]).await;
        end.send_replace(true);
        deadline.send(()).unwrap();
        let mut read = Vec::new();
        output.read_to_end(&mut read).await.unwrap();
        assert_eq!((read.len(), is_left.load(Ordering::Relaxed)), (60_000, true));
    }
}
