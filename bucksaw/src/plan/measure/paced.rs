//! Requests at random moments of a mean rate, over connections that stay open, as senders send them.
//!
//! A request after the other at full speed would cost about half: the node would not have to wake up for each, and its code and data
//! would stay in the caches of the processor.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Connections that send. A request that is due while all wait for an answer is sent late.
const CONNECTIONS: usize = 16;

/// A load for some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacedLoad<'a> {
    /// The bodies that are sent in turn; not empty.
    pub(super) bodies: &'a [Bytes],
    /// Mean bytes of text per second.
    pub(super) bytes_per_second: f64,
    pub(super) time: Duration,
    /// Whether every second request is `fast`, so that its time is without a group commit.
    pub(super) has_fast: bool,
}

/// What was sent. Times are seconds from a request, or from the moment at which a late one was due, to its acknowledgement.
#[derive(Clone, Debug, Default)]
pub(super) struct SentTotals {
    pub(super) bytes: f64,
    pub(super) records: f64,
    pub(super) requests: f64,
    /// The times of the requests that were `durable`.
    pub(super) durable_seconds: Vec<f64>,
    /// The times of those that were `fast`.
    pub(super) fast_seconds: Vec<f64>,
}

impl SentTotals {
    /// Adds what was sent in another load.
    pub(super) fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.records += other.records;
        self.requests += other.requests;
        self.durable_seconds.extend_from_slice(&other.durable_seconds);
        self.fast_seconds.extend_from_slice(&other.fast_seconds);
    }
}

impl PacedLoad<'_> {
    /// Sends requests to the HTTP API of a node at `authority`, at the moments of a Poisson process, until all are
    /// acknowledged.
    pub(super) async fn send(&self, authority: &str) -> anyhow::Result<SentTotals> {
        let mean_bytes = self.bodies.iter().map(Bytes::len).sum::<usize>() as f64 / self.bodies.len() as f64;
        let mut due = Duration::ZERO;
        let mut requests = Vec::new();
        for body in self.bodies.iter().cycle() {
            due += Duration::from_secs_f64(exponential()? * mean_bytes / self.bytes_per_second);
            if due >= self.time {
                break;
            }
            requests.push((due, body.clone()));
        }
        let mut sent = SentTotals { requests: requests.len() as f64, ..SentTotals::default() };
        for (_, body) in &requests {
            sent.bytes += body.len() as f64;
            sent.records += memchr::memchr_iter(b'\n', body).count() as f64;
        }
        let (requests, next, started) = (Arc::new(requests), Arc::new(AtomicUsize::new(0)), Instant::now());
        let (mut senders, has_fast) = (JoinSet::new(), self.has_fast);
        for _ in 0..CONNECTIONS {
            let (requests, next, authority) = (Arc::clone(&requests), Arc::clone(&next), authority.to_owned());
            let mut connection = connect(&authority).await?;
            senders.spawn(async move {
                let mut acknowledged = SentTotals::default();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((due, body)) = requests.get(at) else { return anyhow::Ok(acknowledged) };
                    let is_fast = has_fast && at % 2 == 1;
                    let due = started + *due;
                    // A timer ends up to a millisecond late, which is no time of the request. One that waited for a connection is late.
                    let is_late = Instant::now() >= due;
                    sleep_until(due).await;
                    let from = if is_late { due } else { Instant::now() };
                    send(&mut connection, &authority, body.clone(), is_fast).await?;
                    let times =
                        if is_fast { &mut acknowledged.fast_seconds } else { &mut acknowledged.durable_seconds };
                    times.push(from.elapsed().as_secs_f64());
                }
            });
        }
        while let Some(ended) = senders.join_next().await {
            sent.add(&ended.context("a sender of the measurement failed")??);
        }
        Ok(sent)
    }
}

async fn connect(authority: &str) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(authority).await.with_context(|| format!("cannot connect to {authority}"))?;
    stream.set_nodelay(true)?;
    let (connection, driver) = handshake(TokioIo::new(stream)).await?;
    // Ends with the connection; its errors are those of the requests.
    tokio::spawn(driver);
    Ok(connection)
}

async fn send(
    connection: &mut SendRequest<Full<Bytes>>,
    authority: &str,
    body: Bytes,
    is_fast: bool,
) -> anyhow::Result<()> {
    connection.ready().await?;
    let durability = if is_fast { "fast" } else { "durable" };
    let request = Request::post(format!("/api/v1/ingest?durability={durability}"))
        .header(HOST, authority)
        .header(CONTENT_TYPE, "text/plain")
        .body(Full::new(body))?;
    let answer = connection.send_request(request).await?;
    ensure!(answer.status().is_success(), "the node refuses the lines of the sample: status {}", answer.status());
    answer.into_body().collect().await?;
    Ok(())
}

/// A random number of the exponential distribution with mean 1.
fn exponential() -> anyhow::Result<f64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).context("no random numbers")?;
    let uniform = ((u64::from_le_bytes(bytes) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    Ok(-uniform.ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_the_mean_and_the_spread_of_a_poisson_process() {
        let gaps: Vec<f64> = (0..40_000).map(|_| exponential().unwrap()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.05 && (variance - 1.0).abs() < 0.2, "{mean} {variance}");
    }
}
