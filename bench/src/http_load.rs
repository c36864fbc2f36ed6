//! Sends bodies of lines over HTTP, at full speed or on a schedule.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};

use crate::feed::FeedTotals;
use crate::node::{http_client, number};

/// A request body.
#[derive(Debug)]
pub(crate) struct HttpPost {
    /// Path and query.
    pub(crate) target: String,
    /// Its content type.
    pub(crate) format: &'static str,
    /// The idempotency key, if any.
    pub(crate) key: Option<String>,
    pub(crate) body: Vec<u8>,
    /// Its time since the start.
    pub(crate) due: Duration,
}

/// How bodies are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpLoad<'a> {
    pub(crate) address: &'a str,
    /// Concurrent senders.
    pub(crate) senders: usize,
    /// Whether each body uses a new connection instead of the one of its sender.
    pub(crate) connect_anew: bool,
}

impl HttpLoad<'_> {
    /// Sends body 0, 1, 2, … until there is none. Each must be answered by status 200 with the correct number of
    /// lines.
    pub(crate) fn send(
        &self,
        post: impl Fn(usize) -> anyhow::Result<Option<HttpPost>> + Sync,
    ) -> anyhow::Result<FeedTotals> {
        let (started, next) = (Instant::now(), AtomicUsize::new(0));
        let sent: anyhow::Result<Vec<FeedTotals>> = thread::scope(|scope| {
            let sender = || self.one(started, || post(next.fetch_add(1, Ordering::Relaxed)));
            let senders: Vec<_> = (0..self.senders).map(|_| scope.spawn(sender)).collect();
            senders.into_iter().map(|sender| sender.join().map_err(|_| anyhow!("a sender panicked"))?).collect()
        });
        let mut all = FeedTotals { seconds: started.elapsed().as_secs_f64(), ..FeedTotals::default() };
        for sent in sent? {
            all.bytes += sent.bytes;
            all.lines += sent.lines;
            all.delay = all.delay.max(sent.delay);
        }
        Ok(all)
    }

    fn one(&self, started: Instant, next: impl Fn() -> anyhow::Result<Option<HttpPost>>) -> anyhow::Result<FeedTotals> {
        let (mut http, mut sent) = (http_client(self.address)?, FeedTotals::default());
        while let Some(HttpPost { target, format, key, body, due }) = next()? {
            thread::sleep(due.saturating_sub(started.elapsed()));
            sent.delay = sent.delay.max(started.elapsed().saturating_sub(due).as_secs_f64());
            if self.connect_anew {
                http = http_client(self.address)?;
            }
            let key = key.as_deref().map(|key| ("Idempotency-Key", key));
            let headers: Vec<_> = [("Content-Type", format)].into_iter().chain(key).collect();
            let accepted = number(&http.call("POST", &target, &headers, &body)?.ok_json()?, "/accepted")?;
            let unended = body.last().is_some_and(|last| *last != b'\n');
            let lines = memchr::memchr_iter(b'\n', &body).count() as u64 + u64::from(unended);
            ensure!(accepted == lines, "{lines} lines were sent, and {accepted} accepted");
            sent.bytes += body.len() as u64;
            sent.lines += lines;
        }
        Ok(sent)
    }
}
