//! Chooses the next address of a sender, from redirect targets and the configured list.
//!
//! Redirect targets come first, once. They may be unreachable from here, so the configured list always remains. An address that
//! failed or refused is ejected for an interval that grows with each failure. If all are ejected, the one whose ejection ends
//! first is used, so a sender never waits for an ejection to end.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bucksaw_env::Entropy;

use crate::client_rate::SUGGESTION_INTERVAL_MIN;

/// The first ejection of an address; each further one is twice as long.
const EJECTION_MIN: Duration = Duration::from_secs(5);

/// The longest ejection.
const EJECTION_MAX: Duration = Duration::from_secs(60);

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

/// The addresses and their ejections. Times are uptimes.
#[derive(Debug, Default)]
pub struct AddressSelector {
    configured: Vec<String>,
    next_index: usize,
    redirect_targets: VecDeque<String>,
    redirects_followed: u32,
    ejections: BTreeMap<String, Ejection>,
    moved_at: Option<Duration>,
}

impl AddressSelector {
    /// Selects from these addresses, in their order.
    pub fn new(configured: Vec<String>) -> Self {
        Self { configured, ..Self::default() }
    }

    /// Selects from these addresses in random order, so that many senders with one list spread over its nodes.
    pub fn shuffled(mut configured: Vec<String>, entropy: &dyn Entropy) -> Self {
        for at in (1..configured.len()).rev() {
            let other = usize::try_from(entropy.next_u64() % (at as u64 + 1)).unwrap_or(0);
            configured.swap(at, other);
        }
        Self::new(configured)
    }

    /// The address to try next; empty without configured addresses.
    pub fn next_address(&mut self, now: Duration) -> String {
        while let Some(target) = self.redirect_targets.pop_front() {
            if self.redirects_followed < REDIRECTS_MAX && !self.is_ejected(&target, now) {
                self.redirects_followed += 1;
                return target;
            }
        }
        self.redirects_followed = 0;
        let count = self.configured.len();
        let order = (0..count).map(|more| (self.next_index + more) % count);
        let ejected_until = |at: &usize| {
            let ejection = self.configured.get(*at).and_then(|address| self.ejections.get(address))?;
            Some(ejection.until).filter(|until| *until > now)
        };
        let Some(at) = order.min_by_key(ejected_until) else { return String::new() };
        self.next_index = at + 1;
        self.configured.get(at).cloned().unwrap_or_default()
    }

    /// Whether a redirect target comes next, which needs no backoff.
    pub fn has_redirect_target(&self, now: Duration) -> bool {
        self.redirects_followed < REDIRECTS_MAX
            && self.redirect_targets.iter().any(|target| !self.is_ejected(target, now))
    }

    /// Sets the addresses that are tried before the configured list.
    pub fn set_redirect_targets(&mut self, addresses: &[String]) {
        self.redirect_targets = addresses.iter().cloned().collect();
    }

    /// The addresses of a suggestion that may be tried; none for [`SUGGESTION_INTERVAL_MIN`] after a move.
    pub fn eligible_targets(&self, addresses: &[String], now: Duration) -> Vec<String> {
        if self.moved_at.is_some_and(|at| now.saturating_sub(at) < SUGGESTION_INTERVAL_MIN) {
            return Vec::new();
        }
        addresses.iter().filter(|address| !self.is_ejected(address, now)).cloned().collect()
    }

    /// Records that the sender followed a suggestion.
    pub fn record_move(&mut self, now: Duration) {
        self.moved_at = Some(now);
    }

    /// Ejects an address that failed or refused.
    pub fn eject(&mut self, address: &str, now: Duration) {
        let times = self.ejections.get(address).map_or(0, |ejection| ejection.times);
        let time = EJECTION_MIN.saturating_mul(2_u32.saturating_pow(times)).min(EJECTION_MAX);
        let ejection = Ejection { until: now + time, times: times.saturating_add(1) };
        self.ejections.insert(address.to_owned(), ejection);
        while self.ejections.len() > EJECTIONS_MAX + self.configured.len() {
            let first = self.ejections.iter().min_by_key(|(_, ejection)| ejection.until);
            let first = first.map(|(address, _)| address.clone());
            first.and_then(|first| self.ejections.remove(&first));
        }
    }

    /// Ends the ejections of an address that served a connection.
    pub fn record_success(&mut self, address: &str) {
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

    fn addresses(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn selector(names: &[&str]) -> AddressSelector {
        AddressSelector::new(addresses(names))
    }

    fn shuffled(names: &[&str]) -> AddressSelector {
        AddressSelector::shuffled(addresses(names), &*Env::real().entropy)
    }

    #[test]
    fn configured_addresses_are_tried_in_order_and_ejected_ones_last() {
        let mut selector = selector(&["a", "b", "c"]);
        let mut check = |now, eject: bool, want: &str| {
            let next = selector.next_address(at(now));
            assert_eq!(next, want, "{now}");
            if eject {
                selector.eject(&next, at(now));
            }
        };
        check(0, true, "a");
        check(0, false, "b");
        check(1, true, "c");
        check(1, false, "b");
        check(1, true, "b");
        // All are ejected: the ejection of `a` ends first.
        check(2, false, "a");
        check(5, false, "a");
        // Without a difference, in the order of the list.
        check(6, false, "b");
        check(6, false, "c");
    }

    #[test]
    fn redirect_targets_come_first_within_a_limit() {
        let mut selector = selector(&["a"]);
        selector.eject("x", at(0));
        selector.set_redirect_targets(&addresses(&["x", "y", "z"]));
        assert!(selector.has_redirect_target(at(1)));
        assert_eq!(
            (selector.next_address(at(1)), selector.next_address(at(1)), selector.next_address(at(1))),
            ("y".into(), "z".into(), "a".into())
        );
        assert!(!selector.has_redirect_target(at(1)));
        // Nodes that redirect to each other.
        let mut hops = Vec::new();
        for hop in 0..9 {
            selector.set_redirect_targets(&[format!("n{hop}")]);
            hops.push(selector.next_address(at(2)));
        }
        assert_eq!(hops, ["n0", "n1", "n2", "n3", "a", "n5", "n6", "n7", "n8"]);
        selector.set_redirect_targets(&addresses(&["y"]));
        assert!(!selector.has_redirect_target(at(2)));
        selector.record_success("n8");
        selector.set_redirect_targets(&addresses(&["y"]));
        assert!(selector.has_redirect_target(at(2)));
    }

    #[test]
    fn suggestions_are_followed_a_minute_apart() {
        let mut selector = selector(&["a"]);
        assert_eq!(selector.eligible_targets(&addresses(&["x", "y"]), at(1)), ["x", "y"]);
        selector.eject("x", at(1));
        assert_eq!(selector.eligible_targets(&addresses(&["x", "y"]), at(2)), ["y"]);
        selector.record_move(at(2));
        assert!(selector.eligible_targets(&addresses(&["y"]), at(61)).is_empty());
        assert_eq!(selector.eligible_targets(&addresses(&["x", "y"]), at(62)), ["x", "y"]);
    }

    #[test]
    fn ejections_grow_until_a_success() {
        let mut selector = selector(&["a"]);
        let mut check = |want| {
            selector.eject("x", at(0));
            let ejected = (0..100).filter(|now| selector.is_ejected("x", at(*now))).count();
            assert_eq!(ejected, want);
        };
        for want in [5, 10, 20, 40, 60, 60] {
            check(want);
        }
        selector.record_success("x");
        selector.eject("x", at(0));
        assert!(!selector.is_ejected("x", at(5)));
        for number in 0..1_000 {
            selector.eject(&number.to_string(), at(number));
        }
        assert!(selector.ejections.len() <= EJECTIONS_MAX + 1 && selector.ejections.contains_key("999"));
    }

    #[test]
    fn a_shuffled_list_has_a_random_order() {
        let firsts: BTreeSet<String> = (0..200).map(|_| shuffled(&["a", "b", "c"]).next_address(at(0))).collect();
        assert_eq!(firsts.len(), 3);
        assert!((0..200).all(|_| selector(&["a", "b", "c"]).next_address(at(0)) == "a"));
        let mut selector = shuffled(&["a", "b", "c"]);
        let all: BTreeSet<String> = (0..3).map(|_| selector.next_address(at(0))).collect();
        assert_eq!(all.len(), 3);
    }
}
