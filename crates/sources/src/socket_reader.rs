//! Reading a socket with a buffer of the thread, so that a connection that waits holds none.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::Clock;
use tokio::io::{Interest, Ready};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// What is read at once. As large as what a kernel commonly holds for a socket; few large chunks cost less than many.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// After the stop a socket counts as read empty when nothing arrives for this time. A busy machine may take that long to
/// deliver what a client has written.
const QUIET_PERIOD: Duration = Duration::from_millis(100);

/// So long a busy client is listened to after the stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest pause between two tries after the stop.
const STOPPED_PAUSE_MAX: Duration = Duration::from_millis(10);

/// How often a client is looked after that is not read from.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

thread_local! {
    static CHUNK: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK_BYTES].into_boxed_slice());
}

/// Waits until the stop has come, or nobody is left to bring it.
pub(crate) async fn wait_for_stop(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// The reading half of a connection.
pub(crate) struct SocketReader<'a> {
    socket: &'a TcpStream,
    stop: watch::Receiver<bool>,
    clock: Arc<dyn Clock>,
    /// Since when the stop is known.
    stopped_at: Option<Duration>,
    ended: bool,
}

/// What a read gave.
pub(crate) enum SocketRead<T> {
    /// What was made of the bytes.
    Data(T),
    /// Nothing is there now.
    WouldBlock,
    /// Nothing will come any more.
    Ended,
}

impl<'a> SocketReader<'a> {
    pub(crate) fn new(socket: &'a TcpStream, stop: watch::Receiver<bool>, clock: Arc<dyn Clock>) -> Self {
        Self { socket, stop, clock, stopped_at: None, ended: false }
    }

    /// Whether the stop has come.
    pub(crate) fn is_stopped(&mut self) -> bool {
        if self.stopped_at.is_none() && (*self.stop.borrow() || self.stop.has_changed().is_err()) {
            self.stopped_at = Some(self.clock.uptime());
        }
        self.stopped_at.is_some()
    }

    /// Whether the stop came so long ago that nothing more is waited for.
    pub(crate) fn is_past_drain_timeout(&self) -> bool {
        self.stopped_at.is_some_and(|at| self.clock.uptime().saturating_sub(at) > DRAIN_TIMEOUT)
    }

    /// Waits until there may be bytes. False when none will come: the stream has ended, or the stop has come and the
    /// client is quiet or does not cease.
    pub(crate) async fn wait(&mut self) -> bool {
        if self.ended {
            return false;
        }
        if !self.is_stopped() {
            tokio::select! {
                ready = self.socket.readable() => return self.record_readiness(ready),
                () = wait_for_stop(&mut self.stop) => {}
            }
            self.is_stopped();
        }
        if self.is_past_drain_timeout() {
            return false;
        }
        // A client that has not turned off Nagle's algorithm keeps what it wrote until the last segment is acknowledged, and
        // the kernel may delay that by up to 200 ms.
        if let Err(error) = rustix::net::sockopt::set_tcp_quickack(self.socket, true) {
            tracing::debug!(%error, "cannot ask for quick acknowledgements");
        }
        let ready = tokio::time::timeout(QUIET_PERIOD, self.socket.readable()).await;
        ready.is_ok_and(|ready| self.record_readiness(ready))
    }

    fn record_readiness(&mut self, ready: io::Result<()>) -> bool {
        self.ended |= ready.is_err();
        ready.is_ok()
    }

    /// Reads up to `most` bytes if there are any. A connection that was reset has ended like any other: what came counts.
    pub(crate) fn read<T>(&mut self, most: usize, take: impl FnOnce(&[u8]) -> T) -> SocketRead<T> {
        if self.ended {
            return SocketRead::Ended;
        }
        CHUNK.with_borrow_mut(|chunk| {
            let most = most.min(chunk.len());
            let room = chunk.get_mut(..most).unwrap_or_default();
            match self.socket.try_read(room) {
                Ok(0) => {
                    self.ended = true;
                    SocketRead::Ended
                }
                Ok(count) => SocketRead::Data(take(room.get(..count).unwrap_or_default())),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    SocketRead::WouldBlock
                }
                Err(error) => {
                    tracing::debug!(%error, "connection reset");
                    self.ended = true;
                    SocketRead::Ended
                }
            }
        })
    }

    /// The next bytes, at most `most`; `None` when there are no more, by the rules of [`Self::wait`].
    pub(crate) async fn next<T>(&mut self, most: usize, mut take: impl FnMut(&[u8]) -> T) -> Option<T> {
        loop {
            if !self.wait().await {
                return None;
            }
            match self.read(most, &mut take) {
                SocketRead::Data(taken) => return Some(taken),
                SocketRead::WouldBlock => {}
                SocketRead::Ended => return None,
            }
        }
    }

    /// For those who wait for the stop beside the feed.
    pub(crate) fn stop_receiver(&self) -> watch::Receiver<bool> {
        self.stop.clone()
    }

    /// Waits for the stop.
    pub(crate) async fn until_stop(&mut self) {
        wait_for_stop(&mut self.stop).await;
    }

    /// Waits until it is no use to wait for something else: the stop has come, or the client is gone.
    pub(crate) async fn until_stop_or_hang_up(&mut self) {
        while !self.is_stopped() && !self.is_hung_up().await {
            self.pause(POLL_INTERVAL).await;
        }
    }

    /// Whether the client has closed its side, also when there are bytes before that which were not read.
    pub(crate) async fn is_hung_up(&self) -> bool {
        let ready = tokio::time::timeout(Duration::ZERO, self.socket.ready(Interest::READABLE)).await;
        ready.is_ok_and(|ready| ready.map_or(true, Ready::is_read_closed))
    }

    /// Whether the client has closed its side and everything that it sent has been read.
    pub(crate) async fn is_hung_up_and_read(&self) -> bool {
        // Its end can be read, so `peek` does not wait.
        self.is_hung_up().await && self.socket.peek(&mut [0]).await.is_ok_and(|count| count == 0)
    }

    /// Waits a while, shorter if the stop comes or has come.
    pub(crate) async fn pause(&mut self, time: Duration) {
        if self.is_stopped() {
            return tokio::time::sleep(time.min(STOPPED_PAUSE_MAX)).await;
        }
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = wait_for_stop(&mut self.stop) => {}
        }
    }
}
