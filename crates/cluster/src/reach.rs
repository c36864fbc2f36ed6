//! Whom to compare lists with, and when: those who are there now and then, those who are missing as well, and while nobody is
//! there everyone who could be, again and again. A new node tries all names that it was given until it has reached them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_doors::{Net, Tasks, within};

use crate::entry::Entry;
use crate::exchange;

/// Comparisons that this node has under way at the same time.
const UNDER_WAY_MAX: usize = 8;

/// How long one may take, and how long a name may take to be resolved.
const TIME_MAX: Duration = Duration::from_secs(3);

/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 4;

/// While nobody is there: from the first wait to the longest.
const ALONE: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(2)];

/// The names that were given are tried so often when somebody is there. It brings parts of a cluster together that were started
/// apart from each other.
const JOIN_PERIOD: Duration = Duration::from_secs(30);

/// That a name leads nowhere is told so often.
const WARN_PERIOD: Duration = Duration::from_secs(60);

/// With whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Goal {
    Address(SocketAddr),
    /// `HOST:PORT`, as it was given.
    Host(String),
}

/// When to reach out.
#[derive(Debug)]
pub(crate) struct Reach {
    exchange_period: Duration,
    exchange_at: Duration,
    join_at: Duration,
    alone_at: Duration,
    wait: Duration,
    names_at: Duration,
    names_wait: Duration,
    under_way: BTreeSet<Goal>,
    warned: BTreeMap<String, Duration>,
}

/// What is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// Somebody who is there, and somebody who is missing.
    pub(crate) exchange: bool,
    /// One of the names that were given.
    pub(crate) join: bool,
    /// Everyone who could be there.
    pub(crate) alone: bool,
    /// The configured names that this node has not reached yet.
    pub(crate) names: bool,
}

impl Reach {
    pub(crate) fn new(exchange_period: Duration) -> Self {
        Self {
            exchange_period,
            exchange_at: Duration::ZERO,
            join_at: Duration::ZERO,
            alone_at: Duration::ZERO,
            wait: ALONE[0],
            names_at: Duration::ZERO,
            names_wait: ALONE[0],
            under_way: BTreeSet::new(),
            warned: BTreeMap::new(),
        }
    }

    /// What is due now. `random` spreads it, so that nodes that were started together do not call together.
    pub(crate) fn due(&mut self, alone: bool, awaiting: bool, now: Duration, random: u64) -> Due {
        let mut due = Due::default();
        let spread = |time: Duration| time.mul_f64(0.75 + (random % 1_024) as f64 / 2_048.0);
        if alone {
            if now >= self.alone_at {
                due.alone = true;
                self.alone_at = now + spread(self.wait);
                self.wait = (self.wait * 2).min(ALONE[1]);
            }
            return due;
        }
        (self.alone_at, self.wait) = (now, ALONE[0]);
        if awaiting && now >= self.names_at {
            due.names = true;
            self.names_at = now + spread(self.names_wait);
            self.names_wait = (self.names_wait * 2).min(ALONE[1]);
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

    /// Whether a comparison may begin; it must end with [`Self::done`].
    pub(crate) fn begin(&mut self, goal: &Goal) -> bool {
        self.under_way.len() < UNDER_WAY_MAX && self.under_way.insert(goal.clone())
    }

    pub(crate) fn done(&mut self, goal: &Goal) {
        self.under_way.remove(goal);
    }

    /// Whether it is time to tell that this name leads nowhere.
    pub(crate) fn warns(&mut self, host: &str, now: Duration) -> bool {
        let warn = self.warned.get(host).is_none_or(|at| now.saturating_sub(*at) >= WARN_PERIOD);
        if warn {
            self.warned.insert(host.to_owned(), now);
        }
        warn
    }
}

/// Compares lists with the first who answers; nothing when it would be this node itself.
pub(crate) async fn reach(
    tasks: &Arc<dyn Tasks>,
    net: &Arc<dyn Net>,
    goal: &Goal,
    entries: &[Entry],
) -> io::Result<Vec<Entry>> {
    let addresses = match goal {
        Goal::Address(address) => vec![*address],
        Goal::Host(host) => within(tasks, TIME_MAX, net.resolve(host)).await.ok_or(io::ErrorKind::TimedOut)??,
    };
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    let me = net.address();
    let mut result = Ok(Vec::new());
    for address in addresses.into_iter().filter(|address| *address != me).take(ADDRESSES_MAX) {
        result = one(tasks, net, address, entries, TIME_MAX).await;
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Compares lists with one node.
pub(crate) async fn one(
    tasks: &Arc<dyn Tasks>,
    net: &Arc<dyn Net>,
    address: SocketAddr,
    entries: &[Entry],
    time: Duration,
) -> io::Result<Vec<Entry>> {
    let body = exchange::write(entries)?;
    let answer = async { Ok(exchange::read(net.call(address, exchange::NAME, body).await?).await?) };
    within(tasks, time, answer).await.ok_or(io::ErrorKind::TimedOut)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_alone_tries_soon_and_then_less_often_but_never_stops() {
        let mut reach = Reach::new(Duration::from_secs(5));
        let times = |reach: &mut Reach, from: u64, to: u64| {
            (from..to).filter(|ms| reach.due(true, true, Duration::from_millis(*ms), 512).alone).count()
        };
        assert_eq!(times(&mut reach, 0, 1_000), 3);
        // At 10, 11.6, 13.6, 15.6, 17.6 and 19.6 seconds.
        assert_eq!(times(&mut reach, 10_000, 20_000), 6);
        // Somebody was there; then nobody: at once again.
        assert!(!reach.due(false, false, Duration::from_secs(30), 512).alone);
        assert_eq!(times(&mut reach, 30_000, 31_000), 3);
    }

    #[test]
    fn names_are_tried_while_they_are_awaited() {
        let mut reach = Reach::new(Duration::from_secs(5));
        let times = |reach: &mut Reach, awaiting: bool, to: u64| {
            (0..to).filter(|ms| reach.due(false, awaiting, Duration::from_millis(*ms), 512).names).count()
        };
        assert_eq!(times(&mut reach, false, 20_000), 0);
        // At 0, 0.2, 0.6, 1.4 and 3 seconds, and then every two.
        assert_eq!(times(&mut reach, true, 10_000), 8);
    }

    #[test]
    fn comparisons_are_bounded_and_none_is_made_twice_at_once() {
        let mut reach = Reach::new(Duration::from_secs(5));
        let goal = |port: u16| Goal::Address(([10, 0, 0, 1], port).into());
        assert!(reach.begin(&goal(1)) && !reach.begin(&goal(1)));
        assert_eq!((2..100).filter(|port| reach.begin(&goal(*port))).count(), UNDER_WAY_MAX - 1);
        reach.done(&goal(1));
        assert!(reach.begin(&goal(1)));
    }

    #[test]
    fn a_name_that_leads_nowhere_is_told_rarely() {
        let mut reach = Reach::new(Duration::from_secs(5));
        let told = (0..600).filter(|second| reach.warns("nowhere:1", Duration::from_secs(*second))).count();
        assert_eq!(told, 10);
        assert!(reach.warns("elsewhere:1", Duration::from_secs(599)));
    }
}
