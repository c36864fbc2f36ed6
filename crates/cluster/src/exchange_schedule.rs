//! The schedule of digest exchanges: periodically with live and with missing members, repeatedly with all known addresses while
//! isolated, and with all seeds until each was reached.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{LogRateLimiter, Net, Tasks, with_timeout};

use crate::entry::Entry;
use crate::exchange;

/// Maximum concurrent exchanges.
const IN_FLIGHT_MAX: usize = 8;

/// Timeouts of an exchange and of resolving a seed.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum addresses tried per seed.
const ADDRESSES_MAX: usize = 4;

/// First and longest interval while isolated.
const ISOLATED_BACKOFF: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];

/// Interval of exchanges with seeds while not isolated. They merge clusters that were started separately.
const JOIN_PERIOD: Duration = Duration::from_secs(30);

/// The target of an exchange.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExchangeTarget {
    Address(SocketAddr),
    /// A seed as `HOST:PORT`.
    Host(String),
}

/// Decides which exchanges are due.
#[derive(Debug)]
pub(crate) struct ExchangeSchedule {
    exchange_period: Duration,
    exchange_at: Duration,
    join_at: Duration,
    isolated_at: Duration,
    isolated_backoff: Duration,
    seeds_at: Duration,
    seeds_backoff: Duration,
    in_flight: BTreeSet<ExchangeTarget>,
    unreachable_seeds: BTreeMap<String, LogRateLimiter>,
}

/// The exchanges that are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DueExchanges {
    /// One with a live member and one with a missing one.
    pub(crate) exchange: bool,
    /// One with a seed.
    pub(crate) join: bool,
    /// With all known addresses.
    pub(crate) isolated: bool,
    /// With the seeds that were not reached yet.
    pub(crate) seeds: bool,
}

impl ExchangeSchedule {
    pub(crate) fn new(exchange_period: Duration) -> Self {
        Self {
            exchange_period,
            exchange_at: Duration::ZERO,
            join_at: Duration::ZERO,
            isolated_at: Duration::ZERO,
            isolated_backoff: ISOLATED_BACKOFF[0],
            seeds_at: Duration::ZERO,
            seeds_backoff: ISOLATED_BACKOFF[0],
            in_flight: BTreeSet::new(),
            unreachable_seeds: BTreeMap::new(),
        }
    }

    /// The exchanges that are due. `random` spreads the calls of nodes that were started together.
    pub(crate) fn due(&mut self, alone: bool, bootstrapping: bool, now: Duration, random: u64) -> DueExchanges {
        let mut due = DueExchanges::default();
        let spread = |time: Duration| time.mul_f64(0.75 + (random % 1_024) as f64 / 2_048.0);
        if alone {
            if now >= self.isolated_at {
                due.isolated = true;
                self.isolated_at = now + spread(self.isolated_backoff);
                self.isolated_backoff = (self.isolated_backoff * 2).min(ISOLATED_BACKOFF[1]);
            }
            return due;
        }
        (self.isolated_at, self.isolated_backoff) = (now, ISOLATED_BACKOFF[0]);
        if bootstrapping && now >= self.seeds_at {
            due.seeds = true;
            self.seeds_at = now + spread(self.seeds_backoff);
            self.seeds_backoff = (self.seeds_backoff * 2).min(ISOLATED_BACKOFF[1]);
        }
        if now >= self.exchange_at {
            due.exchange = true;
            self.exchange_at = now + spread(self.exchange_period);
        }
        if now >= self.join_at {
            due.join = self.join_at > Duration::ZERO;
            self.join_at = now + spread(JOIN_PERIOD);
        }
        due
    }

    /// Whether an exchange may begin; it must end with [`Self::done`].
    pub(crate) fn begin(&mut self, goal: &ExchangeTarget) -> bool {
        self.in_flight.len() < IN_FLIGHT_MAX && self.in_flight.insert(goal.clone())
    }

    pub(crate) fn done(&mut self, goal: &ExchangeTarget) {
        self.in_flight.remove(goal);
    }

    /// Limits the warnings about this seed.
    pub(crate) fn unreachable_seed(&mut self, host: &str) -> &LogRateLimiter {
        self.unreachable_seeds.entry(host.to_owned()).or_default()
    }
}

/// Exchanges digests with the first address of a target that answers; nothing if that is this node.
pub(crate) async fn exchange_with(
    tasks: &Arc<dyn Tasks>,
    net: &Arc<dyn Net>,
    goal: &ExchangeTarget,
    entries: &[Entry],
) -> io::Result<Vec<Entry>> {
    let addresses = match goal {
        ExchangeTarget::Address(address) => vec![*address],
        ExchangeTarget::Host(host) => {
            with_timeout(tasks, EXCHANGE_TIMEOUT, net.resolve(host)).await.ok_or(io::ErrorKind::TimedOut)??
        }
    };
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "host name resolves to no address"));
    }
    let me = net.address();
    let mut result = Ok(Vec::new());
    for address in addresses.into_iter().filter(|address| *address != me).take(ADDRESSES_MAX) {
        result = exchange_once(tasks, net, address, entries, EXCHANGE_TIMEOUT).await;
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Exchanges digests with one node.
pub(crate) async fn exchange_once(
    tasks: &Arc<dyn Tasks>,
    net: &Arc<dyn Net>,
    address: SocketAddr,
    entries: &[Entry],
    time: Duration,
) -> io::Result<Vec<Entry>> {
    let body = exchange::write(entries)?;
    let answer = async { Ok(exchange::read(net.call(address, exchange::EXCHANGE_CALL, body).await?).await?) };
    with_timeout(tasks, time, answer).await.ok_or(io::ErrorKind::TimedOut)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_isolated_node_backs_off_and_never_stops() {
        let mut schedule = ExchangeSchedule::new(Duration::from_secs(5));
        let times = |schedule: &mut ExchangeSchedule, from: u64, to: u64| {
            (from..to).filter(|ms| schedule.due(true, true, Duration::from_millis(*ms), 512).isolated).count()
        };
        assert_eq!(times(&mut schedule, 0, 1_000), 3);
        // At 10, 11.6, 13.6, 15.6, 17.6 and 19.6 seconds.
        assert_eq!(times(&mut schedule, 10_000, 20_000), 6);
        // Not isolated, then isolated again: due at once.
        assert!(!schedule.due(false, false, Duration::from_secs(30), 512).isolated);
        assert_eq!(times(&mut schedule, 30_000, 31_000), 3);
    }

    #[test]
    fn seeds_are_tried_during_bootstrap() {
        let mut schedule = ExchangeSchedule::new(Duration::from_secs(5));
        let times = |schedule: &mut ExchangeSchedule, bootstrapping: bool, to: u64| {
            (0..to).filter(|ms| schedule.due(false, bootstrapping, Duration::from_millis(*ms), 512).seeds).count()
        };
        assert_eq!(times(&mut schedule, false, 20_000), 0);
        // At 0, 0.2, 0.6, 1.4 and 3 seconds, and then every two.
        assert_eq!(times(&mut schedule, true, 10_000), 8);
    }

    #[test]
    fn exchanges_in_flight_are_bounded_and_have_different_targets() {
        let mut schedule = ExchangeSchedule::new(Duration::from_secs(5));
        let goal = |port: u16| ExchangeTarget::Address(([10, 0, 0, 1], port).into());
        assert!(schedule.begin(&goal(1)) && !schedule.begin(&goal(1)));
        assert_eq!((2..100).filter(|port| schedule.begin(&goal(*port))).count(), IN_FLIGHT_MAX - 1);
        schedule.done(&goal(1));
        assert!(schedule.begin(&goal(1)));
    }

    #[test]
    fn warnings_about_a_seed_are_rate_limited() {
        let mut schedule = ExchangeSchedule::new(Duration::from_secs(5));
        let mut is_logged =
            |seed: &str, second| schedule.unreachable_seed(seed).check(Duration::from_secs(second)).is_some();
        assert_eq!((0..600).filter(|second| is_logged("one:1", *second)).count(), 10);
        assert!(is_logged("other:1", 599));
    }
}
