//! Which batches of a connection are safe, told in order and as few times as may be.
//!
//! Promises may come true in any order and on any thread; a client is told how many hold from the start without a gap.
//! At most [`Config::unacked_frames_max`](crate::Config) are open at a time, which bounds what is kept here.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bucksaw_ingest::Refusal;
use bucksaw_wire::Told;
use tokio::net::TcpStream;
use tokio::sync::Notify;

/// The batches of one connection.
#[derive(Default)]
pub(crate) struct Acks {
    inner: Mutex<Inner>,
    /// Rung for the writer when there is something to tell.
    news: Notify,
    /// Rung for the reader when a batch is no longer open.
    room: Notify,
}

#[derive(Default)]
struct Inner {
    begun: u64,
    /// From the start without a gap.
    safe: u64,
    /// Safe ones behind a gap.
    ahead: BTreeSet<u64>,
    /// Bytes of those that are not safe.
    open_bytes: usize,
    failed: Option<String>,
    /// What else is to be told.
    words: Vec<Told>,
    /// No batch will follow.
    ended: bool,
}

impl Acks {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of the next batch; returns its number.
    pub(crate) fn begin(&self, bytes: usize) -> u64 {
        let mut inner = self.inner();
        inner.begun += 1;
        inner.open_bytes += bytes;
        inner.begun - 1
    }

    /// What the queue is to call when the promise of a batch holds, or cannot be kept.
    pub(crate) fn done(
        self: &Arc<Self>,
        number: u64,
        bytes: usize,
    ) -> impl FnOnce(Result<(), Refusal>) + Send + 'static {
        let acks = Arc::clone(self);
        move |result| {
            match result {
                Ok(()) => acks.inner().note(number, bytes),
                Err(refusal) => drop(acks.inner().failed.get_or_insert(refusal.to_string())),
            }
            acks.news.notify_one();
            acks.room.notify_one();
        }
    }

    /// Waits until another batch may be open. One is always allowed, however large.
    pub(crate) async fn room(&self, frames_max: u64, bytes_max: usize) {
        loop {
            let room = self.room.notified();
            {
                let inner = self.inner();
                let open = inner.begun - inner.safe;
                if open == 0 || (open < frames_max && inner.open_bytes < bytes_max) {
                    return;
                }
            }
            room.await;
        }
    }

    /// Has the client told something besides.
    pub(crate) fn say(&self, told: Told) {
        self.inner().words.push(told);
        self.news.notify_one();
    }

    /// No batch will follow.
    pub(crate) fn end(&self) {
        self.inner().ended = true;
        self.news.notify_one();
    }

    /// How many are safe from the start.
    pub(crate) fn safe(&self) -> u64 {
        self.inner().safe
    }

    /// Tells the client until all batches are safe and none will follow, or one failed, whose reason is returned.
    pub(crate) async fn tell(&self, socket: &TcpStream) -> io::Result<Option<String>> {
        let mut told = 0;
        loop {
            let news = self.news.notified();
            let (safe, failed, all, words) = {
                let mut inner = self.inner();
                let all = inner.ended && inner.safe == inner.begun;
                (inner.safe, inner.failed.clone(), all, std::mem::take(&mut inner.words))
            };
            for told in words {
                write(socket, &told.encode()).await?;
            }
            if safe > told {
                write(socket, &Told::Acked(safe).encode()).await?;
                told = safe;
            }
            if failed.is_some() || all {
                return Ok(failed);
            }
            news.await;
        }
    }
}

impl Inner {
    fn note(&mut self, number: u64, bytes: usize) {
        self.open_bytes = self.open_bytes.saturating_sub(bytes);
        self.ahead.insert(number);
        while self.ahead.remove(&self.safe) {
            self.safe += 1;
        }
    }
}

/// Writes all of the bytes.
pub(crate) async fn write(socket: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        socket.writable().await?;
        match socket.try_write(bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_no_gap_before_it_is_safe() {
        let acks = Arc::new(Acks::default());
        let mut done: Vec<_> = (0..4).map(|_| Some(acks.done(acks.begin(10), 10))).collect();
        let mut check = |number: usize, want_safe: u64, want_open: usize| {
            done[number].take().unwrap()(Ok(()));
            assert_eq!((acks.safe(), acks.inner().open_bytes), (want_safe, want_open));
        };
        check(1, 0, 30);
        check(0, 2, 20);
        check(3, 2, 10);
        check(2, 4, 0);
    }
}
