//! The fictitious fleet: users, addresses, endpoints, and ids that recur between lines.

use crate::rng::Rng;
use crate::words::NAMES;

/// Sizes of the pools as powers of two. A pool has one item less, the range of [`Rng::zipf`].
pub(crate) const ADDRESS_BITS: u32 = 10;
/// Users and sessions: each user has one session, with the same index.
pub(crate) const USER_BITS: u32 = 10;
pub(crate) const ENDPOINT_BITS: u32 = 9;
/// Concurrent traces.
pub(crate) const TRACES: u32 = 64;

/// A user.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) id: u64,
}

/// An HTTP endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) method: &'static str,
    pub(crate) url: String,
}

/// The pools. The first items are the most frequent.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    pub(crate) addresses: Vec<String>,
    pub(crate) users: Vec<User>,
    pub(crate) endpoints: Vec<Endpoint>,
    /// Ends a session and starts another in its place.
    pub(crate) sessions: Vec<u64>,
    pub(crate) traces: Vec<(u64, u64)>,
}

impl Fleet {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let mut users: Vec<User> = (0..pool(USER_BITS)).map(|n| user(rng, n)).collect();
        let mut addresses: Vec<String> = (0..pool(ADDRESS_BITS)).map(|n| address(rng, n)).collect();
        let mut endpoints: Vec<Endpoint> = (0..pool(ENDPOINT_BITS)).map(|n| endpoint(rng, n)).collect();
        shuffle(rng, &mut users);
        shuffle(rng, &mut addresses);
        shuffle(rng, &mut endpoints);
        let sessions = (0..pool(USER_BITS)).map(|_| rng.next_u64()).collect();
        let traces = (0..TRACES).map(|_| (rng.next_u64(), rng.next_u64())).collect();
        Self { addresses, users, endpoints, sessions, traces }
    }
}

fn pool(bits: u32) -> u32 {
    (1 << bits) - 1
}

fn shuffle<T>(rng: &mut Rng, things: &mut [T]) {
    for place in (1..things.len()).rev() {
        things.swap(place, rng.below(place as u32 + 1) as usize);
    }
}

fn user(rng: &mut Rng, n: u32) -> User {
    let name = NAMES.get(rng.below(NAMES.len() as u32) as usize).copied().unwrap_or_default();
    User { name: format!("{name}{n}"), id: u64::from(100_000 + n * 37 + rng.below(37)) }
}

/// Three quarters of the addresses are of the three documentation networks (RFC 5737), the rest of 2001:db8::/32
/// (RFC 3849).
fn address(rng: &mut Rng, n: u32) -> String {
    match n / 254 {
        0 => format!("192.0.2.{}", n % 254 + 1),
        1 => format!("198.51.100.{}", n % 254 + 1),
        2 => format!("203.0.113.{}", n % 254 + 1),
        _ => format!("2001:db8:{:x}::{:x}", rng.below(1 << 16), n),
    }
}

/// A fifth of the endpoints accept writes, the others reads.
fn endpoint(rng: &mut Rng, n: u32) -> Endpoint {
    let number = rng.below(90_000) + 10_000;
    let digit = number % 9 + 1;
    let (method, url) = match n % 20 {
        0 => ("GET", "/".to_owned()),
        1 => ("GET", format!("/products/{number}")),
        2 => ("GET", format!("/products/{number}/reviews?page={digit}")),
        3 => ("GET", format!("/search?q=desk%20lamp&sort=price&page={digit}")),
        4 => ("GET", format!("/search?q=caf%C3%A9%20table%20{number}")),
        5 => ("GET", format!("/static/app.{:08x}.js", rng.below(u32::MAX))),
        6 => ("GET", format!("/static/img/{number}@2x.webp")),
        7 => ("GET", format!("/files/100%25%20wool%20{number}.pdf")),
        8 => ("GET", format!("/api/v1/orders/{number}")),
        9 => ("GET", format!("/api/v1/orders?status=open&limit=50&after={number}")),
        10 => ("GET", format!("/api/v1/customers/{number}/addresses")),
        11 => ("GET", format!("/api/v2/stock/{number}?warehouse=north%2F{digit}")),
        12 => ("GET", "/healthz".to_owned()),
        13 => ("GET", "/metrics".to_owned()),
        14 => ("GET", format!("/blog/2025/{digit:02}/how-we-moved-{number}")),
        15 => ("GET", format!("/login?next=%2Fcart%3Fid%3D{number}")),
        16 => ("POST", "/api/v1/orders".to_owned()),
        17 => ("POST", format!("/api/v1/carts/{number}/lines")),
        18 => ("PUT", format!("/api/v1/customers/{number}")),
        _ => ("DELETE", format!("/api/v1/carts/{number}/lines/{digit}")),
    };
    Endpoint { method, url }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_full_and_addresses_are_from_documentation_ranges() {
        let fleet = Fleet::new(&mut Rng::new(1));
        assert_eq!([fleet.addresses.len(), fleet.users.len(), fleet.sessions.len()], [1_023; 3]);
        assert_eq!((fleet.endpoints.len(), fleet.traces.len()), (511, 64));
        for address in &fleet.addresses {
            let known = ["192.0.2.", "198.51.100.", "203.0.113.", "2001:db8:"];
            assert!(known.iter().any(|net| address.starts_with(net)), "{address}");
            address.parse::<std::net::IpAddr>().unwrap();
        }
        let mut ids: Vec<u64> = fleet.users.iter().map(|user| user.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 1_023, "no two users share an id");
    }

    #[test]
    fn paths_contain_only_url_characters() {
        for Endpoint { method, url } in Fleet::new(&mut Rng::new(2)).endpoints {
            assert!(url.starts_with('/') && url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"'), "{url}");
            assert!(["GET", "POST", "PUT", "DELETE"].contains(&method));
        }
    }
}
