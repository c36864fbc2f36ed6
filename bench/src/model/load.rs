//! Requests and questions at random times, and how long each took.
//!
//! The times are those of a Poisson process, whatever the node does: a request that is sent late because all senders wait counts
//! from the moment at which it was due. The lateness of a timer, up to a tenth of a millisecond and more, is no time of the node.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use crate::node::http_client;

/// The least and the most concurrent senders of one process of arrivals. Between them there are as many as requests per second: enough for
/// requests of a second each.
const SENDERS: (usize, usize) = (16, 256);

/// How long after the last request is due requests are still sent.
const LATE_MAX: Duration = Duration::from_secs(5);

/// The most time between two requests over one connection. The node closes connections that are idle for ten seconds.
const IDLE_MAX: Duration = Duration::from_secs(5);

/// How long before a request is due a new connection is opened, so that its time is not that of the request.
const CONNECT_AHEAD: Duration = Duration::from_millis(20);

/// Moments at this mean rate until the end.
pub(super) fn arrivals(per_second: f64, end: Duration, seed: u64) -> Vec<Duration> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let (mut moments, mut now) = (Vec::new(), 0.0);
    loop {
        let uniform = ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        now -= uniform.ln() / per_second;
        if now >= end.as_secs_f64() {
            return moments;
        }
        moments.push(Duration::from_secs_f64(now));
    }
}

/// A request to the node: method, target and body.
pub(super) struct TimedRequest {
    pub(super) method: &'static str,
    pub(super) target: String,
    pub(super) body: Vec<u8>,
}

/// The times of a measurement, from its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadWindow {
    pub(super) started: Instant,
    /// When the times begin to count.
    pub(super) from: Duration,
    /// When the last request is due.
    pub(super) until: Duration,
}

impl LoadWindow {
    /// Whether a request that is not sent yet will not be sent: the node is overloaded.
    fn is_over(&self) -> bool {
        self.started.elapsed() > self.until + LATE_MAX
    }
}

/// Sends a request at each moment, and returns the times to the answers of those that are due after the start of the window. A
/// request that is still not sent [`LATE_MAX`] after the end counts with its time until then, which is less than it would take.
pub(super) fn send(
    address: &str,
    window: LoadWindow,
    moments: &[Duration],
    request: impl Fn(usize) -> TimedRequest + Sync,
) -> anyhow::Result<Vec<Duration>> {
    let LoadWindow { started, from, until } = window;
    let senders = moments.len() / (until.as_secs() as usize).max(1);
    let (next, times) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let sender = || {
        let (mut http, mut last_used) = (http_client(address)?, started.elapsed());
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(due) = moments.get(at) else { return anyhow::Ok(()) };
            let mut from_moment = *due;
            if !window.is_over() {
                let TimedRequest { method, target, body } = request(at);
                let connect_at = due.saturating_sub(CONNECT_AHEAD);
                if connect_at.saturating_sub(last_used) > IDLE_MAX {
                    thread::sleep(connect_at.saturating_sub(started.elapsed()));
                    http = http_client(address)?;
                }
                let early = due.saturating_sub(started.elapsed());
                if !early.is_zero() {
                    thread::sleep(early);
                    from_moment = started.elapsed();
                }
                let answer = http.call(method, &target, &[("Content-Type", "text/plain")], &body)?;
                ensure!(answer.status == 200, "{target}: status {}", answer.status);
                last_used = started.elapsed();
            }
            let time = started.elapsed().saturating_sub(from_moment);
            if *due >= from {
                times.lock().map_err(|_| anyhow!("a sender panicked"))?.push(time);
            }
        }
    };
    thread::scope(|scope| {
        let senders: Vec<_> = (0..senders.clamp(SENDERS.0, SENDERS.1)).map(|_| scope.spawn(sender)).collect();
        senders.into_iter().try_for_each(|sender| sender.join().map_err(|_| anyhow!("a sender panicked"))?)
    })?;
    times.into_inner().map_err(|_| anyhow!("a sender panicked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_have_the_rate_and_the_spread_of_a_poisson_process() {
        let moments = arrivals(200.0, Duration::from_secs(100), 1);
        assert!((19_000..21_000).contains(&moments.len()), "{}", moments.len());
        let gaps: Vec<f64> = moments.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{mean} {variance}");
        assert_eq!(moments, arrivals(200.0, Duration::from_secs(100), 1));
    }

    #[test]
    fn requests_that_are_much_too_late_count_and_are_not_sent() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let started = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        let window = LoadWindow { started, from: Duration::from_secs(2), until: Duration::from_secs(4) };
        let moments = [1, 3, 4].map(Duration::from_secs);
        let times = send(&address, window, &moments, |_| unreachable!("a request is made")).unwrap();
        assert_eq!(times.len(), 2);
        assert!(
            times.iter().all(|time| (Duration::from_secs(55)..Duration::from_secs(80)).contains(time)),
            "{times:?}"
        );
    }
}
