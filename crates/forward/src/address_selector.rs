//! Chooses the next address, from redirect targets and the configured list in random order.
//!
//! Redirect targets come first, once. They may be unreachable from here, so the configured list always remains. An address that
//! failed or refused is ejected for an interval that grows with each failure. If all are ejected, the one whose ejection ends
//! first is used, so the agent never waits for an ejection to end.
//!
//! After a move, suggestions are ignored for [`Config::redirect_interval_min`], so that two nodes that redirect to each other
//! do not keep a client moving.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bucksaw_env::Entropy;

use crate::Config;

/// The maximum number of remembered ejections besides those of the configured list.
const EJECTIONS_MAX: usize = 64;

/// Redirect targets that are tried in sequence before the configured list is.
const REDIRECTS_MAX: u32 = 4;

/// An address that failed or refused, until an uptime.
#[derive(Clone, Copy, Debug)]
struct Ejection {
    until: Duration,
    times: u32,
}

/// The addresses and their ejections.
#[derive(Debug)]
pub(crate) struct AddressSelector {
    configured: Vec<String>,
    /// The next of the configured list.
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

    /// The address to try next.
    pub(crate) fn next_address(&mut self, now: Duration) -> String {
        while let Some(target) = self.redirect_targets.pop_front() {
            if self.redirects_followed < REDIRECTS_MAX && !self.is_ejected(&target, now) {
                self.redirects_followed += 1;
                return target;
            }
        }
        self.redirects_followed = 0;
        let count = self.configured.len();
        let order = (0..count).map(|more| (self.next_index + more) % count);
        let until = |at: &usize| {
            self.configured.get(*at).and_then(|own| self.ejections.get(own)).map(|ejection| ejection.until)
        };
        let Some(at) = order.min_by_key(|at| until(at).filter(|until| *until > now)) else { return String::new() };
        self.next_index = at + 1;
        self.configured.get(at).cloned().unwrap_or_default()
    }

    /// Whether a redirect target comes next, which needs no backoff.
    pub(crate) fn has_redirect_target(&self, now: Duration) -> bool {
        self.redirects_followed < REDIRECTS_MAX
            && self.redirect_targets.iter().any(|target| !self.is_ejected(target, now))
    }

    /// Sets the addresses that are tried before the configured list.
    pub(crate) fn set_redirect_targets(&mut self, addresses: &[String]) {
        self.redirect_targets = addresses.iter().cloned().collect();
    }

    /// The addresses of a suggestion that may be tried; none soon after a move.
    pub(crate) fn eligible_targets(&self, addresses: &[String], now: Duration) -> Vec<String> {
        let is_too_soon = self.redirected_at.is_some_and(|at| now.saturating_sub(at) < self.redirect_interval_min);
        let worth = addresses.iter().filter(|address| !is_too_soon && !self.is_ejected(address, now));
        worth.cloned().collect()
    }

    /// Records a move.
    pub(crate) fn record_redirect(&mut self, now: Duration) {
        self.redirected_at = Some(now);
    }

    /// Ejects an address that failed or refused.
    pub(crate) fn eject(&mut self, address: &str, now: Duration) {
        let times = self.ejections.get(address).map_or(0, |ejection| ejection.times);
        let time = self.ejection_min.saturating_mul(2_u32.saturating_pow(times)).min(self.ejection_max);
        let ejection = Ejection { until: now + time, times: times.saturating_add(1) };
        self.ejections.insert(address.to_owned(), ejection);
        while self.ejections.len() > EJECTIONS_MAX + self.configured.len() {
            let first =
                self.ejections.iter().min_by_key(|(_, ejection)| ejection.until).map(|(address, _)| address.clone());
            first.and_then(|first| self.ejections.remove(&first));
        }
    }

    /// Ends the ejections of an address that served a connection.
    pub(crate) fn record_success(&mut self, address: &str) {
        self.ejections.remove(address);
        self.redirects_followed = 0;
    }

    fn is_ejected(&self, address: &str, now: Duration) -> bool {
        self.ejections.get(address).is_some_and(|ejection| ejection.until > now)
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
