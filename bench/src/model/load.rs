//! Requests and questions at random times, and how long each took.
//!
//! The times are those of a Poisson process, whatever the node does: a request that is sent late because all senders wait counts
//! from the moment at which it was due.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use crate::node::http_client;

/// Concurrent senders of one process of arrivals.
const SENDERS: usize = 16;

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

/// Sends a request at each moment after `started`, and returns the times from those moments after `from` to the answers.
pub(super) fn send(
    address: &str,
    (started, from): (Instant, Duration),
    moments: &[Duration],
    request: impl Fn(usize) -> TimedRequest + Sync,
) -> anyhow::Result<Vec<Duration>> {
    let (next, times) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let sender = || {
        let mut http = http_client(address)?;
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(due) = moments.get(at) else { return anyhow::Ok(()) };
            let TimedRequest { method, target, body } = request(at);
            thread::sleep(due.saturating_sub(started.elapsed()));
            let answer = http.call(method, &target, &[("Content-Type", "text/plain")], &body)?;
            let time = started.elapsed().saturating_sub(*due);
            ensure!(answer.status == 200, "{target}: status {}", answer.status);
            if *due >= from {
                times.lock().map_err(|_| anyhow!("a sender panicked"))?.push(time);
            }
        }
    };
    thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS).map(|_| scope.spawn(sender)).collect();
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
}
