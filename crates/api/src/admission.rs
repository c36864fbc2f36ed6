//! Which connections are let in: limits for each address and for all, and a reserve for those who watch the node.
//!
//! A connection that sends nothing holds its slot until the head of a request is due. Without a reserve, idle connections
//! in all slots would keep health checks waiting for that long.
//!
//! ```text
//!            ┌─ its address and all addresses have room ─► ordinary: every call
//!   accept ──┼─ else the reserve has room ───────────────► reserved: one call, of those in VITAL; others get 503
//!            └─ else the oldest in the reserve that has sent no request is closed for it; if there is none, it is closed
//! ```
//! Invariant: there are at most `connections_max` ordinary and `reserved_max` reserved connections.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::EncodeLabelValue;
use tokio::sync::Notify;

use crate::error::ApiError;

/// What is answered on a reserved connection.
const MONITORING_PATHS: [&str; 3] = ["/-/healthy", "/-/ready", "/metrics"];

/// Why a connection has no ordinary slot. The label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "label values are lower case")]
pub(crate) enum ConnectionLimit {
    /// Its address has as many as one may have.
    address,
    /// All addresses together have as many as there may be.
    all,
}

impl ConnectionLimit {
    pub(crate) const ALL: [Self; 2] = [Self::address, Self::all];
}

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    pub(crate) all: usize,
    pub(crate) address: usize,
    pub(crate) reserved: usize,
}

/// Counts the connections of a listener.
#[derive(Debug)]
pub(crate) struct Admission {
    limits: ConnectionLimits,
    counts: Mutex<ConnectionCounts>,
}

#[derive(Debug, Default)]
struct ConnectionCounts {
    ordinary: usize,
    by_address: HashMap<IpAddr, usize>,
    /// The oldest first.
    reserved: VecDeque<Arc<ReservedConnection>>,
}

/// A connection in the reserve.
#[derive(Debug, Default)]
pub(crate) struct ReservedConnection {
    has_request: AtomicBool,
    evicted: Notify,
}

impl ReservedConnection {
    /// A request has come: the connection is not closed for another one any more.
    pub(crate) fn mark_request(&self) {
        self.has_request.store(true, Ordering::Relaxed);
    }

    /// Waits until the connection has to make room for a newer one.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

/// Where a new connection belongs. Its slot is free again when this is dropped.
#[derive(Debug)]
pub(crate) enum Admitted {
    Ordinary(OrdinarySlot),
    Reserved(ReservedSlot, ConnectionLimit),
    Refused(ConnectionLimit),
}

impl Admission {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, counts: Mutex::default() })
    }

    fn counts(&self) -> MutexGuard<'_, ConnectionCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a connection from this address.
    pub(crate) fn admit(self: &Arc<Self>, peer: SocketAddr) -> Admitted {
        let address = network(peer.ip());
        let mut counts = self.counts();
        let held = counts.by_address.get(&address).copied().unwrap_or(0);
        let crowded = if counts.ordinary >= self.limits.all {
            ConnectionLimit::all
        } else if held >= self.limits.address {
            ConnectionLimit::address
        } else {
            counts.ordinary += 1;
            *counts.by_address.entry(address).or_default() += 1;
            return Admitted::Ordinary(OrdinarySlot { admission: Arc::clone(self), address });
        };
        if counts.reserved.len() >= self.limits.reserved {
            let idle = counts.reserved.iter().position(|reserved| !reserved.has_request.load(Ordering::Relaxed));
            let Some(idle) = idle.and_then(|at| counts.reserved.remove(at)) else {
                return Admitted::Refused(crowded);
            };
            idle.evicted.notify_one();
        }
        let reserved = Arc::new(ReservedConnection::default());
        counts.reserved.push_back(Arc::clone(&reserved));
        Admitted::Reserved(ReservedSlot { admission: Arc::clone(self), reserved }, crowded)
    }
}

/// An ordinary connection, for as long as it is open.
#[derive(Debug)]
pub(crate) struct OrdinarySlot {
    admission: Arc<Admission>,
    address: IpAddr,
}

impl Drop for OrdinarySlot {
    fn drop(&mut self) {
        let mut counts = self.admission.counts();
        counts.ordinary = counts.ordinary.saturating_sub(1);
        let left = counts.by_address.get_mut(&self.address).map(|held| {
            *held = held.saturating_sub(1);
            *held
        });
        if left == Some(0) {
            counts.by_address.remove(&self.address);
        }
    }
}

/// A reserved connection, for as long as it is open.
#[derive(Debug)]
pub(crate) struct ReservedSlot {
    admission: Arc<Admission>,
    pub(crate) reserved: Arc<ReservedConnection>,
}

impl Drop for ReservedSlot {
    fn drop(&mut self) {
        self.admission.counts().reserved.retain(|held| !Arc::ptr_eq(held, &self.reserved));
    }
}

/// What counts as one address: an IPv4 address, or the network of 64 bits that a host of IPv6 commonly has for itself.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    }
}

/// Answers the calls in [`VITAL`], and refuses others.
pub(crate) async fn monitoring_only(request: Request, next: Next) -> Response {
    if MONITORING_PATHS.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let mut response =
        ApiError::unavailable("too many HTTP connections are open, from this address or in all: close some")
            .into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(all: usize, address: usize, reserved: usize) -> Arc<Admission> {
        Admission::new(ConnectionLimits { all, address, reserved })
    }

    fn from(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 1)
    }

    #[test]
    fn each_address_has_its_limit_and_all_have_one() {
        let admission = admission(3, 2, 1);
        let ordinary = |address: &str| match admission.admit(from(address)) {
            Admitted::Ordinary(slot) => Ok(slot),
            Admitted::Reserved(_, crowded) | Admitted::Refused(crowded) => Err(crowded),
        };
        let first = ordinary("10.0.0.1").unwrap();
        let _second = ordinary("::ffff:10.0.0.1").unwrap();
        assert_eq!(ordinary("10.0.0.1").unwrap_err(), ConnectionLimit::address);
        let third = ordinary("2001:db8::1").unwrap();
        assert_eq!(ordinary("10.0.0.2").unwrap_err(), ConnectionLimit::all);
        drop(first);
        let _fourth = ordinary("2001:db8::2").unwrap();
        drop(third);
        let _fifth = ordinary("2001:db8::3").unwrap();
        drop(_second);
        assert_eq!(ordinary("2001:db8::4").unwrap_err(), ConnectionLimit::address);
        assert_eq!(admission.counts().by_address.len(), 1);
        let _other_network = ordinary("2001:db8:0:1::1").unwrap();
    }

    #[tokio::test]
    async fn the_reserve_goes_to_the_newest_but_from_those_who_asked() {
        let admission = admission(0, 0, 2);
        let reserved = || match admission.admit(from("10.0.0.1")) {
            Admitted::Reserved(slot, _) => Some(slot),
            _ => None,
        };
        let (first, second) = (reserved().unwrap(), reserved().unwrap());
        first.reserved.mark_request();
        let third = reserved().unwrap();
        second.reserved.evicted().await;
        drop(second);
        third.reserved.mark_request();
        assert!(reserved().is_none(), "both are being answered");
        drop(first);
        assert!(reserved().is_some());
    }
}
