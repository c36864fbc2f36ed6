//! Which node to try next: the agent's own list, in an order of chance, and what nodes say of others.
//!
//! What a node suggests comes first, once. The own list is never given up for it: the addresses that nodes name may not
//! lead anywhere from here. An address that failed or refused is passed over for a while, longer each time, as long as there
//! is another; when all are, the one is taken whose while ends first, so that nothing stands still for what is remembered.
//!
//! A suggestion is followed only when the last one was long ago ([`Config::settle`](crate::Config::settle)): two nodes that
//! send clients to each other must not keep them on the way.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bucksaw_doors::Entropy;

use crate::Config;

/// So many addresses that nodes named are kept, those that were refused included.
const KEPT: usize = 64;

/// So many addresses that nodes named are tried one after the other before the own list has its turn.
const HOPS: u32 = 4;

/// An address that failed or refused.
#[derive(Clone, Copy, Debug)]
struct Shunned {
    until: Duration,
    times: u32,
}

/// The addresses, and what is known of them.
#[derive(Debug)]
pub(crate) struct Route {
    own: Vec<String>,
    /// The one of the own list that comes next.
    turn: usize,
    named: VecDeque<String>,
    hops: u32,
    shunned: BTreeMap<String, Shunned>,
    shun_min: Duration,
    shun_max: Duration,
    settle: Duration,
    moved_at: Option<Duration>,
}

impl Route {
    pub(crate) fn new(config: &Config, entropy: &dyn Entropy) -> Self {
        let mut own = config.to.clone();
        if config.spread {
            for at in (1..own.len()).rev() {
                let other = usize::try_from(entropy.next_u64() % (at as u64 + 1)).unwrap_or(0);
                own.swap(at, other);
            }
        }
        Self {
            own,
            turn: 0,
            named: VecDeque::new(),
            hops: 0,
            shunned: BTreeMap::new(),
            shun_min: config.shun_min,
            shun_max: config.shun_max,
            settle: config.settle,
            moved_at: None,
        }
    }

    /// The address to try now.
    pub(crate) fn next(&mut self, now: Duration) -> String {
        while let Some(named) = self.named.pop_front() {
            if self.hops < HOPS && !self.is_shunned(&named, now) {
                self.hops += 1;
                return named;
            }
        }
        self.hops = 0;
        let count = self.own.len();
        let order = (0..count).map(|more| (self.turn + more) % count);
        let until = |at: &usize| self.own.get(*at).and_then(|own| self.shunned.get(own)).map(|shunned| shunned.until);
        let Some(at) = order.min_by_key(|at| until(at).filter(|until| *until > now)) else { return String::new() };
        self.turn = at + 1;
        self.own.get(at).cloned().unwrap_or_default()
    }

    /// Whether an address that a node named comes next, so that nothing need be waited for.
    pub(crate) fn is_named(&self, now: Duration) -> bool {
        self.hops < HOPS && self.named.iter().any(|named| !self.is_shunned(named, now))
    }

    /// A node names others, to be tried before the own list.
    pub(crate) fn name(&mut self, addresses: &[String]) {
        self.named = addresses.iter().cloned().collect();
    }

    /// Which of the addresses of a suggestion are worth trying; none while the last move was not long ago.
    pub(crate) fn worth(&self, addresses: &[String], now: Duration) -> Vec<String> {
        let settling = self.moved_at.is_some_and(|at| now.saturating_sub(at) < self.settle);
        let worth = addresses.iter().filter(|address| !settling && !self.is_shunned(address, now));
        worth.cloned().collect()
    }

    /// A suggestion was followed.
    pub(crate) fn moved(&mut self, now: Duration) {
        self.moved_at = Some(now);
    }

    /// An address failed or refused: it is passed over for a while.
    pub(crate) fn shun(&mut self, address: &str, now: Duration) {
        let times = self.shunned.get(address).map_or(0, |shunned| shunned.times);
        let time = self.shun_min.saturating_mul(2_u32.saturating_pow(times)).min(self.shun_max);
        let shunned = Shunned { until: now + time, times: times.saturating_add(1) };
        self.shunned.insert(address.to_owned(), shunned);
        while self.shunned.len() > KEPT + self.own.len() {
            let first =
                self.shunned.iter().min_by_key(|(_, shunned)| shunned.until).map(|(address, _)| address.clone());
            first.and_then(|first| self.shunned.remove(&first));
        }
    }

    /// A connection was of use: nothing is held against the address.
    pub(crate) fn useful(&mut self, address: &str) {
        self.shunned.remove(address);
        self.hops = 0;
    }

    fn is_shunned(&self, address: &str, now: Duration) -> bool {
        self.shunned.get(address).is_some_and(|shunned| shunned.until > now)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bucksaw_doors::Doors;

    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn route(own: &[&str], spread: bool) -> Route {
        let to = own.iter().map(|own| (*own).to_owned()).collect();
        let config = Config { to, spread, shun_min: at(5), shun_max: at(60), settle: at(60), ..Config::default() };
        Route::new(&config, &*Doors::real().entropy)
    }

    fn named(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_own_list_is_tried_in_turn_and_what_failed_later() {
        let mut route = route(&["a", "b", "c"], false);
        let mut check = |now, shun: bool, want: &str| {
            let next = route.next(at(now));
            assert_eq!(next, want, "{now}");
            if shun {
                route.shun(&next, at(now));
            }
        };
        check(0, true, "a");
        check(0, false, "b");
        check(0, true, "c");
        check(0, false, "b");
        check(1, true, "b");
        // All are shunned: the one whose while ends first.
        check(2, false, "a");
        // In turn where there is nothing to choose.
        check(5, false, "c");
        check(6, false, "a");
    }

    #[test]
    fn named_ones_come_first_and_not_for_ever() {
        let mut route = route(&["a"], false);
        route.shun("x", at(0));
        route.name(&named(&["x", "y", "z"]));
        assert!(route.is_named(at(1)));
        assert_eq!((route.next(at(1)), route.next(at(1)), route.next(at(1))), ("y".into(), "z".into(), "a".into()));
        assert!(!route.is_named(at(1)));
        // Nodes that send from one to the other.
        let mut hops = Vec::new();
        for hop in 0..9 {
            route.name(&[format!("n{hop}")]);
            hops.push(route.next(at(2)));
        }
        assert_eq!(hops, ["n0", "n1", "n2", "n3", "a", "n5", "n6", "n7", "n8"]);
        route.name(&named(&["y"]));
        assert!(!route.is_named(at(2)));
        route.useful("n8");
        route.name(&named(&["y"]));
        assert!(route.is_named(at(2)));
    }

    #[test]
    fn suggestions_are_followed_now_and_then() {
        let mut route = route(&["a"], false);
        assert_eq!(route.worth(&named(&["x", "y"]), at(1)), ["x", "y"]);
        route.shun("x", at(1));
        assert_eq!(route.worth(&named(&["x", "y"]), at(2)), ["y"]);
        route.moved(at(2));
        assert!(route.worth(&named(&["y"]), at(61)).is_empty());
        assert_eq!(route.worth(&named(&["x", "y"]), at(62)), ["x", "y"]);
    }

    #[test]
    fn a_while_is_longer_each_time_until_it_was_of_use() {
        let mut route = route(&["a"], false);
        let mut check = |want| {
            route.shun("x", at(0));
            let whiles = (0..100).filter(|now| route.is_shunned("x", at(*now))).count();
            assert_eq!(whiles, want);
        };
        [5, 10, 20, 40, 60, 60].map(&mut check);
        route.useful("x");
        route.shun("x", at(0));
        assert!(!route.is_shunned("x", at(5)));
        for number in 0..1_000 {
            route.shun(&number.to_string(), at(number));
        }
        assert!(route.shunned.len() <= KEPT + 1 && route.shunned.contains_key("999"));
    }

    #[test]
    fn each_agent_has_an_order_of_its_own() {
        let firsts: BTreeSet<String> = (0..200).map(|_| route(&["a", "b", "c"], true).next(at(0))).collect();
        assert_eq!(firsts.len(), 3);
        assert!((0..200).all(|_| route(&["a", "b", "c"], false).next(at(0)) == "a"));
        let mut route = route(&["a", "b", "c"], true);
        let all: BTreeSet<String> = (0..3).map(|_| route.next(at(0))).collect();
        assert_eq!(all.len(), 3);
    }
}
