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

use bucksaw_env::Entropy;

use crate::Config;

/// So many addresses that nodes named are kept, those that were refused included.
const EJECTIONS_MAX: usize = 64;

/// So many addresses that nodes named are tried one after the other before the own list has its turn.
const REDIRECTS_MAX: u32 = 4;

/// An address that failed or refused.
#[derive(Clone, Copy, Debug)]
struct Ejection {
    until: Duration,
    times: u32,
}

/// The addresses, and what is known of them.
#[derive(Debug)]
pub(crate) struct AddressSelector {
    configured: Vec<String>,
    /// The one of the own list that comes next.
    next_index: usize,
    redirect_targets: VecDeque<String>,
    redirects_followed: u32,
    ejections: BTreeMap<String, Ejection>,
    ejection_min: Duration,
    ejection_max: Duration,
    redirect_interval_min: Duration,
    redirected_at: Option<Duration>,
}

impl AddressSelector {
    pub(crate) fn new(config: &Config, entropy: &dyn Entropy) -> Self {
        let mut configured = config.addresses.clone();
        if config.shuffle {
            for at in (1..configured.len()).rev() {
                let other = usize::try_from(entropy.next_u64() % (at as u64 + 1)).unwrap_or(0);
                configured.swap(at, other);
            }
        }
        Self {
            configured,
            next_index: 0,
            redirect_targets: VecDeque::new(),
            redirects_followed: 0,
            ejections: BTreeMap::new(),
            ejection_min: config.ejection_min,
            ejection_max: config.ejection_max,
            redirect_interval_min: config.redirect_interval_min,
            redirected_at: None,
        }
    }

    /// The address to try now.
    pub(crate) fn next_address(&mut self, now: Duration) -> String {
        while let Some(named) = self.redirect_targets.pop_front() {
            if self.redirects_followed < REDIRECTS_MAX && !self.is_ejected(&named, now) {
                self.redirects_followed += 1;
                return named;
            }
        }
        self.redirects_followed = 0;
        let count = self.configured.len();
        let order = (0..count).map(|more| (self.next_index + more) % count);
        let until =
            |at: &usize| self.configured.get(*at).and_then(|own| self.ejections.get(own)).map(|shunned| shunned.until);
        let Some(at) = order.min_by_key(|at| until(at).filter(|until| *until > now)) else { return String::new() };
        self.next_index = at + 1;
        self.configured.get(at).cloned().unwrap_or_default()
    }

    /// Whether an address that a node named comes next, so that nothing need be waited for.
    pub(crate) fn has_redirect_target(&self, now: Duration) -> bool {
        self.redirects_followed < REDIRECTS_MAX
            && self.redirect_targets.iter().any(|named| !self.is_ejected(named, now))
    }

    /// A node names others, to be tried before the own list.
    pub(crate) fn set_redirect_targets(&mut self, addresses: &[String]) {
        self.redirect_targets = addresses.iter().cloned().collect();
    }

    /// Which of the addresses of a suggestion are worth trying; none while the last move was not long ago.
    pub(crate) fn eligible_targets(&self, addresses: &[String], now: Duration) -> Vec<String> {
        let is_too_soon = self.redirected_at.is_some_and(|at| now.saturating_sub(at) < self.redirect_interval_min);
        let worth = addresses.iter().filter(|address| !is_too_soon && !self.is_ejected(address, now));
        worth.cloned().collect()
    }

    /// A suggestion was followed.
    pub(crate) fn record_redirect(&mut self, now: Duration) {
        self.redirected_at = Some(now);
    }

    /// An address failed or refused: it is passed over for a while.
    pub(crate) fn eject(&mut self, address: &str, now: Duration) {
        let times = self.ejections.get(address).map_or(0, |shunned| shunned.times);
        let time = self.ejection_min.saturating_mul(2_u32.saturating_pow(times)).min(self.ejection_max);
        let ejection = Ejection { until: now + time, times: times.saturating_add(1) };
        self.ejections.insert(address.to_owned(), ejection);
        while self.ejections.len() > EJECTIONS_MAX + self.configured.len() {
            let first =
                self.ejections.iter().min_by_key(|(_, shunned)| shunned.until).map(|(address, _)| address.clone());
            first.and_then(|first| self.ejections.remove(&first));
        }
    }

    /// A connection was of use: nothing is held against the address.
    pub(crate) fn record_success(&mut self, address: &str) {
        self.ejections.remove(address);
        self.redirects_followed = 0;
    }

    fn is_ejected(&self, address: &str, now: Duration) -> bool {
        self.ejections.get(address).is_some_and(|shunned| shunned.until > now)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bucksaw_env::Env;

    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn route(own: &[&str], spread: bool) -> AddressSelector {
        let to = own.iter().map(|own| (*own).to_owned()).collect();
        let config = Config {
            addresses: to,
            shuffle: spread,
            ejection_min: at(5),
            ejection_max: at(60),
            redirect_interval_min: at(60),
            ..Config::default()
        };
        AddressSelector::new(&config, &*Env::real().entropy)
    }

    fn named(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn configured_addresses_are_tried_in_turn_and_failed_ones_last() {
        let mut route = route(&["a", "b", "c"], false);
        let mut check = |now, shun: bool, want: &str| {
            let next = route.next_address(at(now));
            assert_eq!(next, want, "{now}");
            if shun {
                route.eject(&next, at(now));
            }
        };
        check(0, true, "a");
        check(0, false, "b");
        check(1, true, "c");
        check(1, false, "b");
        check(1, true, "b");
        // All are shunned: the one whose while ends first.
        check(2, false, "a");
        check(5, false, "a");
        // In turn where there is nothing to choose.
        check(6, false, "b");
        check(6, false, "c");
    }

    #[test]
    fn redirect_targets_come_first_within_a_limit() {
        let mut route = route(&["a"], false);
        route.eject("x", at(0));
        route.set_redirect_targets(&named(&["x", "y", "z"]));
        assert!(route.has_redirect_target(at(1)));
        assert_eq!(
            (route.next_address(at(1)), route.next_address(at(1)), route.next_address(at(1))),
            ("y".into(), "z".into(), "a".into())
        );
        assert!(!route.has_redirect_target(at(1)));
        // Nodes that send from one to the other.
        let mut hops = Vec::new();
        for hop in 0..9 {
            route.set_redirect_targets(&[format!("n{hop}")]);
            hops.push(route.next_address(at(2)));
        }
        assert_eq!(hops, ["n0", "n1", "n2", "n3", "a", "n5", "n6", "n7", "n8"]);
        route.set_redirect_targets(&named(&["y"]));
        assert!(!route.has_redirect_target(at(2)));
        route.record_success("n8");
        route.set_redirect_targets(&named(&["y"]));
        assert!(route.has_redirect_target(at(2)));
    }

    #[test]
    fn suggestions_are_followed_at_intervals() {
        let mut route = route(&["a"], false);
        assert_eq!(route.eligible_targets(&named(&["x", "y"]), at(1)), ["x", "y"]);
        route.eject("x", at(1));
        assert_eq!(route.eligible_targets(&named(&["x", "y"]), at(2)), ["y"]);
        route.record_redirect(at(2));
        assert!(route.eligible_targets(&named(&["y"]), at(61)).is_empty());
        assert_eq!(route.eligible_targets(&named(&["x", "y"]), at(62)), ["x", "y"]);
    }

    #[test]
    fn ejections_grow_until_a_success() {
        let mut route = route(&["a"], false);
        let mut check = |want| {
            route.eject("x", at(0));
            let whiles = (0..100).filter(|now| route.is_ejected("x", at(*now))).count();
            assert_eq!(whiles, want);
        };
        for want in [5, 10, 20, 40, 60, 60] {
            check(want);
        }
        route.record_success("x");
        route.eject("x", at(0));
        assert!(!route.is_ejected("x", at(5)));
        for number in 0..1_000 {
            route.eject(&number.to_string(), at(number));
        }
        assert!(route.ejections.len() <= EJECTIONS_MAX + 1 && route.ejections.contains_key("999"));
    }

    #[test]
    fn each_agent_has_an_order_of_its_own() {
        let firsts: BTreeSet<String> = (0..200).map(|_| route(&["a", "b", "c"], true).next_address(at(0))).collect();
        assert_eq!(firsts.len(), 3);
        assert!((0..200).all(|_| route(&["a", "b", "c"], false).next_address(at(0)) == "a"));
        let mut route = route(&["a", "b", "c"], true);
        let all: BTreeSet<String> = (0..3).map(|_| route.next_address(at(0))).collect();
        assert_eq!(all.len(), 3);
    }
}
