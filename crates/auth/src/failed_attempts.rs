//! Slows addresses that present wrong credentials.
//!
//! The first failures of an address are answered at once, as a person may mistype a token. Each further one waits twice as
//! long, up to a maximum. An address without a failure for a minute starts anew. Valid credentials do not pass here, so a
//! client is not slowed by others behind the same address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Mutex;
use std::time::Duration;

use bucksaw_env::lock;

/// Failures of an address that are answered at once.
const FREE_FAILURES: u32 = 5;

/// The delay of the next failure, which doubles with each one after it.
const DELAY_MIN: Duration = Duration::from_millis(50);

/// The longest delay. A delayed answer holds a connection of the client, which limits attempts at the same time.
const DELAY_MAX: Duration = Duration::from_secs(3);

/// The time without a failure after which an address starts anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// Addresses in the table. Beyond them the one whose last failure is longest ago starts anew.
const ADDRESSES_MAX: usize = 4_096;

/// The recent failures of addresses: of each IPv4 address, and of each IPv6 network of 64 bits, which one host commonly has.
#[derive(Debug, Default)]
pub(crate) struct FailedAttempts(Mutex<HashMap<IpAddr, AddressFailures>>);

#[derive(Clone, Copy, Debug)]
struct AddressFailures {
    count: u32,
    /// The uptime of the last one.
    last: Duration,
}

impl FailedAttempts {
    /// Counts a failure, and returns the delay of its answer.
    pub(crate) fn count(&self, peer: IpAddr, now: Duration) -> Duration {
        let mut table = lock(&self.0);
        let address = network(peer);
        if !table.contains_key(&address) && table.len() >= ADDRESSES_MAX {
            table.retain(|_, failures| now.saturating_sub(failures.last) < FORGOTTEN_AFTER);
            let oldest = table.iter().min_by_key(|(_, failures)| failures.last).map(|(address, _)| *address);
            if let Some(oldest) = oldest.filter(|_| table.len() >= ADDRESSES_MAX) {
                table.remove(&oldest);
            }
        }
        let failures = table.entry(address).or_insert(AddressFailures { count: 0, last: now });
        if now.saturating_sub(failures.last) >= FORGOTTEN_AFTER {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        match failures.count.checked_sub(FREE_FAILURES + 1) {
            None => Duration::ZERO,
            Some(doublings) => DELAY_MIN.saturating_mul(1 << doublings.min(16)).min(DELAY_MAX),
        }
    }
}

fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn delays_grow_and_end_with_a_pause() {
        let (attempts, peer) = (FailedAttempts::default(), "10.0.0.1".parse().unwrap());
        let delays: Vec<u128> = (0..14).map(|_| attempts.count(peer, at(1)).as_millis()).collect();
        assert_eq!(delays, [0, 0, 0, 0, 0, 50, 100, 200, 400, 800, 1_600, 3_000, 3_000, 3_000]);
        assert_eq!(attempts.count("10.0.0.2".parse().unwrap(), at(1)), Duration::ZERO, "another address");
        assert_eq!(attempts.count("::ffff:10.0.0.1".parse().unwrap(), at(60)), DELAY_MAX, "the same address");
        assert_eq!(attempts.count(peer, at(120)), Duration::ZERO, "after a minute without a failure");
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let attempts = FailedAttempts::default();
        let delays = (0..6).map(|host| attempts.count(format!("2001:db8::{host}").parse().unwrap(), at(0)));
        assert_eq!(delays.last(), Some(DELAY_MIN));
        assert_eq!(attempts.count("2001:db8:0:1::".parse().unwrap(), at(0)), Duration::ZERO);
    }

    #[test]
    fn the_table_is_bounded_and_keeps_the_newest_failures() {
        let attempts = FailedAttempts::default();
        let address = |number: u32| IpAddr::V4(number.into());
        for number in 0..ADDRESSES_MAX as u32 {
            for _ in 0..6 {
                attempts.count(address(number), at(u64::from(number) / 1_000));
            }
        }
        attempts.count(address(u32::MAX), at(5));
        assert_eq!(lock(&attempts.0).len(), ADDRESSES_MAX);
        assert!(attempts.count(address(ADDRESSES_MAX as u32 - 1), at(5)) > DELAY_MIN, "a recent one is kept");
    }
}
