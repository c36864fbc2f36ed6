//! What a principal uses of this node: bytes per second, and queries in flight.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::lock;

/// The bytes and queries of one principal. Shared by all of its connections.
#[derive(Debug, Default)]
pub struct ClientUsage {
    bytes: Mutex<ByteBalance>,
    queries: AtomicU32,
}

/// Bytes that may be accepted now. Accepted bytes are known only afterwards, so the balance may be negative.
#[derive(Debug, Default)]
struct ByteBalance {
    bytes: f64,
    /// The uptime of the last change; `None` before the first.
    changed: Option<Duration>,
}

impl ByteBalance {
    /// Adds the bytes of the time that has passed, up to those of one second.
    fn refill(&mut self, bytes_per_second: u64, now: Duration) {
        let rate = bytes_per_second as f64;
        let passed = self.changed.map_or(1.0, |changed| now.saturating_sub(changed).as_secs_f64());
        self.bytes = (self.bytes + passed * rate).min(rate);
        self.changed = Some(now);
    }
}

impl ClientUsage {
    /// Counts accepted text at the uptime `now`.
    pub(crate) fn add_bytes(&self, bytes_per_second: u64, bytes: u64, now: Duration) {
        let mut balance = lock(&self.bytes);
        balance.refill(bytes_per_second, now);
        balance.bytes -= bytes as f64;
    }

    /// How long to wait before more text is accepted; zero if it is now.
    pub(crate) fn delay(&self, bytes_per_second: u64, now: Duration) -> Duration {
        let mut balance = lock(&self.bytes);
        balance.refill(bytes_per_second, now);
        match balance.bytes < 0.0 {
            true => {
                Duration::try_from_secs_f64(-balance.bytes / bytes_per_second.max(1) as f64).unwrap_or(Duration::MAX)
            }
            false => Duration::ZERO,
        }
    }

    /// A slot for a query in flight; `None` if all are taken.
    pub(crate) fn try_query(self: &Arc<Self>, queries_max: Option<u32>) -> Option<QuerySlot> {
        let taken = self.queries.fetch_add(1, Ordering::Relaxed);
        let slot = QuerySlot(Arc::clone(self));
        queries_max.is_none_or(|max| taken < max).then_some(slot)
    }
}

/// A query in flight; dropping it ends it.
#[derive(Debug)]
pub struct QuerySlot(Arc<ClientUsage>);

impl Drop for QuerySlot {
    fn drop(&mut self) {
        self.0.queries.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_beyond_the_rate_delay_the_next_ones() {
        let usage = ClientUsage::default();
        let ms = Duration::from_millis;
        assert_eq!(usage.delay(1_000, ms(0)), Duration::ZERO);
        usage.add_bytes(1_000, 1_000, ms(0));
        assert_eq!(usage.delay(1_000, ms(0)), Duration::ZERO, "one second's bytes at once");
        usage.add_bytes(1_000, 3_000, ms(0));
        assert_eq!(usage.delay(1_000, ms(0)), ms(3_000));
        assert_eq!(usage.delay(1_000, ms(2_500)), ms(500));
        assert_eq!(usage.delay(1_000, ms(3_000)), Duration::ZERO);
        // A long pause saves no more than a second.
        usage.add_bytes(1_000, 3_000, ms(900_000));
        assert_eq!(usage.delay(1_000, ms(900_000)), ms(2_000));
    }

    #[test]
    fn queries_are_limited_while_they_are_in_flight() {
        let usage = Arc::<ClientUsage>::default();
        let (first, second) = (usage.try_query(Some(2)), usage.try_query(Some(2)));
        assert!(first.is_some() && second.is_some() && usage.try_query(Some(2)).is_none());
        drop(first);
        assert!(usage.try_query(Some(2)).is_some());
        assert!(usage.try_query(None).is_some());
        drop(second);
        assert_eq!(usage.queries.load(Ordering::Relaxed), 0);
    }
}
