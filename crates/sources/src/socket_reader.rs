//! Reads a socket into a buffer of the thread, so that an idle connection holds none.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::Clock;
use tokio::sync::watch;

use crate::socket::Socket;
use crate::stop_watch::StopWatch;

/// Bytes of one read, about the size of a socket buffer of the kernel. Few large chunks cost less than many small ones.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// After the stop a socket counts as empty when no bytes arrive for this time, which a busy machine may need to deliver them.
const QUIET_PERIOD: Duration = Duration::from_millis(100);

/// How often a client that is not read from is checked for a hang-up.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

thread_local! {
    static CHUNK: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK_BYTES].into_boxed_slice());
}

/// Lends the buffer of the thread, which has [`CHUNK_BYTES`].
pub(crate) fn with_chunk<T>(use_chunk: impl FnOnce(&mut [u8]) -> T) -> T {
    CHUNK.with_borrow_mut(|chunk| use_chunk(chunk))
}

/// The reading half of a connection.
pub(crate) struct SocketReader<'a> {
    socket: &'a Socket,
    pub(crate) stop: StopWatch,
    ended: bool,
}

/// The result of a read.
pub(crate) enum SocketRead<T> {
    Data(T),
    WouldBlock,
    Ended,
}

impl SocketRead<usize> {
    fn map<T>(self, take: impl FnOnce(usize) -> T) -> SocketRead<T> {
        match self {
            Self::Data(count) => SocketRead::Data(take(count)),
            Self::WouldBlock => SocketRead::WouldBlock,
            Self::Ended => SocketRead::Ended,
        }
    }
}

impl<'a> SocketReader<'a> {
    /// Creates a reader that ends after `stop`. Reads nothing yet.
    pub(crate) fn new(socket: &'a Socket, stop: watch::Receiver<bool>, clock: Arc<dyn Clock>) -> Self {
        Self { socket, stop: StopWatch::new(stop, clock), ended: false }
    }

    pub(crate) fn is_stopped(&mut self) -> bool {
        self.stop.is_stopped()
    }

    /// Waits until bytes may be readable. False if the stream has ended, or after the stop if the client is quiet or does not
    /// cease.
    pub(crate) async fn wait(&mut self) -> bool {
        if self.ended {
            return false;
        }
        if !self.is_stopped() {
            tokio::select! {
                ready = self.socket.readable() => return self.record_readiness(ready),
                () = self.stop.wait() => {}
            }
            self.is_stopped();
        }
        if self.stop.is_past_drain_timeout() {
            return false;
        }
        // With Nagle's algorithm a client holds back bytes until the last segment is acknowledged, which the kernel may delay
        // by up to 200 ms.
        if let Err(error) = rustix::net::sockopt::set_tcp_quickack(self.socket.tcp(), true) {
            tracing::debug!(%error, "cannot ask for quick acknowledgements");
        }
        let ready = tokio::time::timeout(QUIET_PERIOD, self.socket.readable()).await;
        ready.is_ok_and(|ready| self.record_readiness(ready))
    }

    fn record_readiness(&mut self, ready: io::Result<()>) -> bool {
        self.ended |= ready.is_err();
        ready.is_ok()
    }

    /// Reads up to `bytes_max` bytes without waiting. A reset ends the stream like a close.
    pub(crate) fn read<T>(&mut self, bytes_max: usize, take: impl FnOnce(&[u8]) -> T) -> SocketRead<T> {
        if self.ended {
            return SocketRead::Ended;
        }
        with_chunk(|chunk| {
            let bytes_max = bytes_max.min(chunk.len());
            let buffer = chunk.get_mut(..bytes_max).unwrap_or_default();
            let read = self.socket.try_read(buffer);
            self.outcome(read).map(|count| take(buffer.get(..count).unwrap_or_default()))
        })
    }

    /// The same to the end of a buffer. Returns the number of bytes.
    pub(crate) fn read_into(&mut self, buffer: &mut Vec<u8>, bytes_max: usize) -> SocketRead<usize> {
        if self.ended {
            return SocketRead::Ended;
        }
        let read = self.socket.try_read_into(buffer, bytes_max);
        self.outcome(read)
    }

    fn outcome(&mut self, read: io::Result<usize>) -> SocketRead<usize> {
        match read {
            Ok(0) => {
                self.ended = true;
                SocketRead::Ended
            }
            Ok(count) => SocketRead::Data(count),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                SocketRead::WouldBlock
            }
            Err(error) => {
                tracing::debug!(%error, "connection reset");
                self.ended = true;
                SocketRead::Ended
            }
        }
    }

    /// Waits for bytes and reads up to `bytes_max` of them; `None` at the end, as in [`Self::wait`].
    pub(crate) async fn next<T>(&mut self, bytes_max: usize, mut take: impl FnMut(&[u8]) -> T) -> Option<T> {
        loop {
            if !self.wait().await {
                return None;
            }
            match self.read(bytes_max, &mut take) {
                SocketRead::Data(data) => return Some(data),
                SocketRead::WouldBlock => {}
                SocketRead::Ended => return None,
            }
        }
    }

    pub(crate) fn stop_receiver(&self) -> watch::Receiver<bool> {
        self.stop.receiver()
    }

    pub(crate) async fn until_stop(&mut self) {
        self.stop.wait().await;
    }

    /// Waits for the stop, or until the client has closed its side.
    pub(crate) async fn until_stop_or_hang_up(&mut self) {
        while !self.is_stopped() && !self.is_hung_up().await {
            self.pause(POLL_INTERVAL).await;
        }
    }

    /// Whether the client has closed its side; unread bytes may remain.
    pub(crate) async fn is_hung_up(&self) -> bool {
        self.socket.is_hung_up().await
    }

    /// Whether the client has closed its side and all of its bytes were read.
    pub(crate) async fn is_hung_up_and_read(&self) -> bool {
        self.is_hung_up().await && self.socket.is_at_end().await
    }

    /// As [`StopWatch::pause`].
    pub(crate) async fn pause(&mut self, time: Duration) {
        self.stop.pause(time).await;
    }
}
