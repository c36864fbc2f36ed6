//! What clients hear at the door: come in, others have less to do, or go there.
//!
//! Whoever knows the other nodes advises once in a while ([`Guide::advise`]); the listeners ask here, for each client, and
//! never wait for it. Nobody is sent away who cannot be told where else to go: the advice counts for nothing while no node
//! with less to do has the same kind of port.
//!
//! | level | newcomers of the framed protocol | connected ones | lines over TCP | HTTP |
//! | --- | --- | --- | --- | --- |
//! | 0 at ease | | | | |
//! | 1 busy | others are suggested | others are suggested to some | | |
//! | 2 very busy | refused, told of others | others are suggested to some | | others are named |
//! | 3 overloaded | refused, told of others | some are let go, told of others | new ones are closed | refused, others are named |
//!
//! Where it says "refused", "let go" and "closed", the node must be one of those that may: see [`Advice::refuses`].
//! A node that may not suggests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bucksaw_doors::Entropy;
use tokio::sync::Semaphore;

use crate::append::Durability;
use crate::metrics::{ByHow, Metrics};

/// So many addresses are named.
const NAMED: usize = 3;

/// What the node makes of its own load and that of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// How busy this node is: 0 at ease, 1 busy, 2 very busy, 3 overloaded.
    pub level: u8,
    /// Whether it may refuse: others may have to go first.
    pub refuses: bool,
    /// The other live nodes that take records in and are not about to stop.
    pub others: Vec<Other>,
}

/// Another node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Other {
    /// How busy it is.
    pub level: u8,
    /// What more it could take, in any unit, the same for all; the odds by which it is named. At least 1 counts.
    pub spare: u64,
    /// Its HTTP address.
    pub http: Option<String>,
    /// Its TCP address for `fast`.
    pub fast: Option<String>,
    /// Its TCP address for `durable`.
    pub durable: Option<String>,
    /// Its TCP address for `bulk`.
    pub bulk: Option<String>,
}

/// A kind of port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// HTTP.
    Http,
    /// Lines and frames.
    Tcp(Durability),
}

/// What is said to a client that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// Nothing.
    Welcome,
    /// Others, of these addresses, have less to do; it may stay.
    Suggested(Vec<String>),
    /// It may not stay; these have less to do.
    Refused(Vec<String>),
}

/// What became of a client that was told of others, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It was told, and may stay.
    Suggested,
    /// It had just come, and may not stay.
    Refused,
    /// It was there, and has to go.
    LetGo,
}

impl How {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Suggested, Self::Refused, Self::LetGo];

    /// The word for it in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Suggested => "suggested",
            Self::Refused => "refused",
            Self::LetGo => "let_go",
        }
    }
}

/// See the module. Shared by all listeners of a node.
pub struct Guide {
    advice: Mutex<Arc<Advice>>,
    connections: AtomicU64,
    movable: AtomicU64,
    /// A permit for each connected client that is to be told of others.
    going: Semaphore,
    metrics: Metrics,
}

/// Counts a client for as long as it is connected.
#[derive(Debug)]
pub struct Connected<'a>(&'a AtomicU64);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Guide {
    pub(crate) fn new(metrics: Metrics) -> Self {
        let zero = AtomicU64::default;
        Self { advice: Mutex::default(), connections: zero(), movable: zero(), going: Semaphore::new(0), metrics }
    }

    /// Counts a TCP connection.
    pub fn connected(&self) -> Connected<'_> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connected(&self.connections)
    }

    /// Counts, besides, one whose client can be told where else to go.
    pub fn movable(&self) -> Connected<'_> {
        self.movable.fetch_add(1, Ordering::Relaxed);
        Connected(&self.movable)
    }

    /// TCP connections that are open.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// How many of them can be told where else to go.
    #[must_use]
    pub fn connections_movable(&self) -> u64 {
        self.movable.load(Ordering::Relaxed)
    }

    /// From now on this is said to clients.
    pub fn advise(&self, advice: Advice) {
        self.metrics.load_level.set(i64::from(advice.level));
        self.metrics.refusing.set(i64::from(advice.refuses && advice.level >= 2));
        *self.advice.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(advice);
    }

    /// So many connected clients, and no more, are told now of others. Those that were to be told before and were not are
    /// let be.
    pub fn send(&self, clients: usize) {
        self.going.forget_permits(Semaphore::MAX_PERMITS);
        self.going.add_permits(clients.min(Semaphore::MAX_PERMITS / 2));
    }

    /// What was advised last.
    #[must_use]
    pub fn advice(&self) -> Arc<Advice> {
        Arc::clone(&self.advice.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What a newcomer is told, if it can be told anything.
    #[must_use]
    pub fn greeting(&self, port: Port, entropy: &dyn Entropy) -> Greeting {
        let advice = self.advice();
        let others = advice.better(port, entropy);
        match advice.level {
            _ if others.is_empty() => Greeting::Welcome,
            2.. if advice.refuses => Greeting::Refused(others),
            1.. => Greeting::Suggested(others),
            0 => Greeting::Welcome,
        }
    }

    /// Whether those are refused, too, that cannot be told of others.
    #[must_use]
    pub fn shuts(&self, port: Port) -> bool {
        let advice = self.advice();
        advice.lets_go() && advice.candidates(port).next().is_some()
    }

    /// Whether connected clients are let go, and not only told of others.
    #[must_use]
    pub fn lets_go(&self) -> bool {
        self.advice().lets_go()
    }

    /// Waits until a connected client is to be told of others; whoever this returns to tells one.
    pub async fn turn(&self) {
        match self.going.acquire().await {
            Ok(permit) => permit.forget(),
            // The semaphore is never closed.
            Err(_) => std::future::pending().await,
        }
    }

    /// What a client is told whose turn it is: it may stay, or has to go. `None` when others do not have less to do
    /// any more.
    #[must_use]
    pub fn farewell(&self, port: Port, entropy: &dyn Entropy) -> Option<(How, Vec<String>)> {
        let advice = self.advice();
        let others = advice.better(port, entropy);
        let how = if advice.lets_go() { How::LetGo } else { How::Suggested };
        (!others.is_empty()).then_some((how, others))
    }

    /// Where clients may go when this node stops, however busy it is; may be nowhere.
    #[must_use]
    pub fn heirs(&self, port: Port, entropy: &dyn Entropy) -> Vec<String> {
        let advice = self.advice();
        let having = || advice.others.iter().filter(|other| other.address(port).is_some());
        let least = having().map(|other| other.level).min();
        drawn(having().filter(|other| Some(other.level) == least), port, entropy)
    }

    /// Counts a client that was told of others.
    pub fn count(&self, how: How) {
        self.metrics.sent_elsewhere.get_or_create(&ByHow { how: how.name() }).inc();
    }
}

impl Advice {
    fn lets_go(&self) -> bool {
        self.level >= 3 && self.refuses
    }

    /// Those that have less to do than this node.
    fn candidates(&self, port: Port) -> impl Iterator<Item = &Other> {
        self.others.iter().filter(move |other| other.level < self.level && other.address(port).is_some())
    }

    fn better(&self, port: Port, entropy: &dyn Entropy) -> Vec<String> {
        drawn(self.candidates(port), port, entropy)
    }
}

impl Other {
    fn address(&self, port: Port) -> Option<&String> {
        match port {
            Port::Http => self.http.as_ref(),
            Port::Tcp(Durability::Fast) => self.fast.as_ref(),
            Port::Tcp(Durability::Durable) => self.durable.as_ref(),
            Port::Tcp(Durability::Bulk) => self.bulk.as_ref(),
        }
    }
}

/// The addresses of some, in an order of chance, the odds by what they have to spare.
fn drawn<'a>(others: impl Iterator<Item = &'a Other>, port: Port, entropy: &dyn Entropy) -> Vec<String> {
    // Exponential races (Efraimidis, Spirakis: "Weighted random sampling with a reservoir"): the order of -ln(u)/odds.
    let mut racing: Vec<(f64, &String)> = others
        .filter_map(|other| {
            let chance = (entropy.next_u64() as f64 / u64::MAX as f64).max(f64::MIN_POSITIVE);
            Some((-chance.ln() / other.spare.max(1) as f64, other.address(port)?))
        })
        .collect();
    racing.sort_by(|left, right| left.0.total_cmp(&right.0).then_with(|| left.1.cmp(right.1)));
    racing.into_iter().take(NAMED).map(|(_, address)| address.clone()).collect()
}

impl std::fmt::Debug for Guide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guide").field("advice", &self.advice()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_doors::Doors;
    use prometheus_client::registry::Registry;

    use super::*;

    const FAST: Port = Port::Tcp(Durability::Fast);

    fn guide(level: u8, refuses: bool, others: &[(u8, u64)]) -> Guide {
        let guide = Guide::new(Metrics::new(&mut Registry::default()));
        let other = |(number, (level, spare)): (usize, &(u8, u64))| Other {
            level: *level,
            spare: *spare,
            fast: Some(format!("n{number}:1")),
            ..Other::default()
        };
        let others = others.iter().enumerate().map(other).collect();
        guide.advise(Advice { level, refuses, others });
        guide
    }

    #[test]
    fn what_newcomers_hear() {
        let entropy = Doors::real().entropy;
        let check = |level, refuses, others: &[(u8, u64)], want: &str| {
            let guide = guide(level, refuses, others);
            let heard = match guide.greeting(FAST, &*entropy) {
                Greeting::Welcome => "welcome".to_owned(),
                Greeting::Suggested(others) => format!("suggested {}", others.join(",")),
                Greeting::Refused(others) => format!("refused {}", others.join(",")),
            };
            let shuts = if guide.shuts(FAST) { ", shut" } else { "" };
            assert_eq!(format!("{heard}{shuts}"), want, "{level} {refuses} {others:?}");
            // Nobody else listens for these.
            assert_eq!(guide.greeting(Port::Http, &*entropy), Greeting::Welcome);
            assert!(!guide.shuts(Port::Http));
        };
        check(0, false, &[(0, 1)], "welcome");
        check(1, true, &[(0, 1)], "suggested n0:1");
        check(1, true, &[(1, 9), (2, 9)], "welcome");
        check(2, false, &[(1, 1), (2, 9)], "suggested n0:1");
        check(2, true, &[(2, 9), (1, 1)], "refused n1:1");
        check(2, true, &[], "welcome");
        check(3, false, &[(2, 1)], "suggested n0:1");
        check(3, true, &[(2, 1)], "refused n0:1, shut");
        check(3, true, &[(3, 1), (3, 1)], "welcome");
    }

    #[test]
    fn who_has_to_go() {
        let entropy = Doors::real().entropy;
        let check = |level, refuses, others: &[(u8, u64)], want: Option<How>, heirs: usize| {
            let guide = guide(level, refuses, others);
            assert_eq!(guide.farewell(FAST, &*entropy).map(|(how, _)| how), want);
            assert_eq!(guide.heirs(FAST, &*entropy).len(), heirs);
        };
        check(1, true, &[(0, 1)], Some(How::Suggested), 1);
        check(3, false, &[(0, 1)], Some(How::Suggested), 1);
        check(3, true, &[(0, 1), (1, 1)], Some(How::LetGo), 1);
        check(3, true, &[(3, 1), (3, 1)], None, 2);
        check(0, false, &[(2, 1); 5], None, NAMED);
        check(0, false, &[], None, 0);
    }

    #[test]
    fn the_odds_are_by_what_is_spare() {
        let entropy = Doors::real().entropy;
        let guide = guide(1, false, &[(0, 0), (0, 900), (0, 100)]);
        let mut firsts = [0; 3];
        for _ in 0..4_000 {
            let Greeting::Suggested(others) = guide.greeting(FAST, &*entropy) else { panic!("nothing suggested") };
            assert_eq!(others.len(), 3);
            let first = others[0][1..2].parse::<usize>().unwrap();
            firsts[first] += 1;
        }
        // 90, 10 and 0.1 per cent; five standard deviations are under 2.5 per cent.
        assert!((3_500..3_700).contains(&firsts[1]) && (300..500).contains(&firsts[2]), "{firsts:?}");
    }

    #[test]
    fn turns_that_were_not_taken_pass() {
        let guide = guide(1, false, &[(0, 1)]);
        guide.send(3);
        guide.send(2);
        assert_eq!(guide.going.available_permits(), 2);
        guide.send(0);
        assert_eq!(guide.going.available_permits(), 0);
    }
}
