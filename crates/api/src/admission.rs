//! Admits connections within limits per address and in total, with a reserve for monitoring.
//!
//! An idle connection holds its slot until the head of a request is due. Without a reserve, idle connections in all
//! slots would delay health checks for that long.
//!
//! ```text
//!            ┌─ its address and the total have room ─► ordinary: every call
//!   accept ──┼─ the reserve has room ────────────────► reserved: one call of MONITORING_PATHS; others get 503
//!            └─ else the oldest reserved connection without a request is evicted for it, or it is refused
//! ```
//! Invariant: at most `connections_max` ordinary and `reserved_connections_max` reserved connections are open.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bucksaw_env::lock;
use bucksaw_steering::client_network;
use tokio::sync::Notify;

use crate::config::Config;
use crate::error::ApiError;
use crate::metrics::{ConnectionLimit, Metrics};

/// Paths that are answered on a reserved connection.
const MONITORING_PATHS: [&str; 3] = ["/-/healthy", "/-/ready", "/metrics"];

/// Counts the connections of all listeners, also in the gauge of the metrics.
#[derive(Debug)]
pub(crate) struct Admission {
    config: Arc<Config>,
    metrics: Metrics,
    counts: Mutex<ConnectionCounts>,
}

#[derive(Debug, Default)]
struct ConnectionCounts {
    ordinary: usize,
    by_address: HashMap<IpAddr, usize>,
    /// Oldest first.
    reserved: VecDeque<Arc<ReservedConnection>>,
}

/// A connection in the reserve.
#[derive(Debug, Default)]
pub(crate) struct ReservedConnection {
    has_request: AtomicBool,
    evicted: Notify,
}

impl ReservedConnection {
    /// Marks that a request arrived, so that the connection is no longer evicted.
    pub(crate) fn mark_request(&self) {
        self.has_request.store(true, Ordering::Relaxed);
    }

    /// Resolves when the connection is evicted.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

/// The slot of a new connection; dropping it frees the slot.
#[derive(Debug)]
pub(crate) enum Admitted {
    Ordinary(OrdinarySlot),
    Reserved(ReservedSlot, ConnectionLimit),
    Refused(ConnectionLimit),
}

impl Admission {
    pub(crate) fn new(config: Arc<Config>, metrics: Metrics) -> Arc<Self> {
        Arc::new(Self { config, metrics, counts: Mutex::default() })
    }

    /// Assigns a slot to a connection from this address.
    pub(crate) fn admit(self: &Arc<Self>, peer: SocketAddr) -> Admitted {
        let limit = match self.admit_ordinary(peer) {
            Ok(slot) => return Admitted::Ordinary(slot),
            Err(limit) => limit,
        };
        let mut counts = lock(&self.counts);
        if counts.reserved.len() >= self.config.reserved_connections_max {
            let idle = counts.reserved.iter().position(|reserved| !reserved.has_request.load(Ordering::Relaxed));
            let Some(idle) = idle.and_then(|at| counts.reserved.remove(at)) else {
                return Admitted::Refused(limit);
            };
            idle.evicted.notify_one();
        }
        let reserved = Arc::new(ReservedConnection::default());
        counts.reserved.push_back(Arc::clone(&reserved));
        self.metrics.connections.inc();
        Admitted::Reserved(ReservedSlot { admission: Arc::clone(self), reserved }, limit)
    }

    /// Assigns an ordinary slot, for a listener on which nothing is monitored.
    ///
    /// # Errors
    /// The limit that leaves no slot.
    pub(crate) fn admit_ordinary(self: &Arc<Self>, peer: SocketAddr) -> Result<OrdinarySlot, ConnectionLimit> {
        let address = client_network(peer.ip());
        let mut counts = lock(&self.counts);
        let of_address = counts.by_address.get(&address).copied().unwrap_or(0);
        if counts.ordinary >= self.config.connections_max {
            return Err(ConnectionLimit::all);
        }
        if of_address >= self.config.address_connections_max {
            return Err(ConnectionLimit::address);
        }
        counts.ordinary += 1;
        *counts.by_address.entry(address).or_default() += 1;
        self.metrics.connections.inc();
        Ok(OrdinarySlot { admission: Arc::clone(self), address })
    }
}

/// The slot of an open ordinary connection.
#[derive(Debug)]
pub(crate) struct OrdinarySlot {
    admission: Arc<Admission>,
    address: IpAddr,
}

impl Drop for OrdinarySlot {
    fn drop(&mut self) {
        self.admission.metrics.connections.dec();
        let mut counts = lock(&self.admission.counts);
        counts.ordinary = counts.ordinary.saturating_sub(1);
        if let Some(count) = counts.by_address.get_mut(&self.address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.by_address.remove(&self.address);
            }
        }
    }
}

/// The slot of an open reserved connection.
#[derive(Debug)]
pub(crate) struct ReservedSlot {
    admission: Arc<Admission>,
    pub(crate) reserved: Arc<ReservedConnection>,
}

impl Drop for ReservedSlot {
    fn drop(&mut self) {
        self.admission.metrics.connections.dec();
        lock(&self.admission.counts).reserved.retain(|reserved| !Arc::ptr_eq(reserved, &self.reserved));
    }
}

/// Answers the calls of [`MONITORING_PATHS`] and refuses others.
pub(crate) async fn monitoring_only(request: Request, next: Next) -> Response {
    if MONITORING_PATHS.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let message = "too many HTTP connections are open, from this address or in all: close some";
    let mut response = ApiError::unavailable(message).into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;
    use proptest::prelude::*;

    use super::*;

    fn admission(all: usize, address: usize, reserved: usize) -> Arc<Admission> {
        let config = Config {
            connections_max: all,
            address_connections_max: address,
            reserved_connections_max: reserved,
            ..Config::default()
        };
        Admission::new(Arc::new(config), Metrics::new(&mut Registry::default()))
    }

    fn from(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 1)
    }

    #[test]
    fn connections_are_limited_per_address_and_in_total() {
        let admission = admission(3, 2, 1);
        let ordinary = |address: &str| match admission.admit(from(address)) {
            Admitted::Ordinary(slot) => Ok(slot),
            Admitted::Reserved(_, limit) | Admitted::Refused(limit) => Err(limit),
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
        assert_eq!(lock(&admission.counts).by_address.len(), 1);
        let _other_network = ordinary("2001:db8:0:1::1").unwrap();
    }

    #[tokio::test]
    async fn a_reserved_connection_is_evicted_unless_it_has_a_request() {
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
        assert!(reserved().is_none(), "both have a request");
        drop(first);
        assert!(reserved().is_some());
    }

    #[derive(Clone, Copy, Debug)]
    enum Op {
        /// From this address.
        Connect(u8),
        /// The open connection at this position.
        Close(usize),
        SendRequest(usize),
    }

    /// An open connection, with its number in the order of arrival if it is reserved.
    enum Open {
        Ordinary { address: u8, _slot: OrdinarySlot },
        Reserved(usize, ReservedSlot),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            4 => (0_u8..4).prop_map(Op::Connect),
            2 => any::<usize>().prop_map(Op::Close),
            1 => any::<usize>().prop_map(Op::SendRequest),
        ];
        prop::collection::vec(op, 1..80)
    }

    proptest! {
        /// Slots follow from the open connections alone; the model keeps lists instead of counts.
        #[test]
        fn slots_follow_the_model(
            (all, address, reserved) in (0_usize..5, 0_usize..4, 0_usize..4),
            ops in ops(),
        ) {
            let admission = admission(all, address, reserved);
            let mut open: Vec<Open> = Vec::new();
            // Reserved connections by age: number, and whether a request was sent.
            let mut model: Vec<(usize, bool)> = Vec::new();
            for (number, op) in ops.into_iter().enumerate() {
                match op {
                    Op::Connect(from_address) => {
                        let ordinary = |of: Option<u8>| {
                            let is_counted = |open: &&Open| match open {
                                Open::Ordinary { address, .. } => of.is_none_or(|of| of == *address),
                                Open::Reserved(..) => false,
                            };
                            open.iter().filter(is_counted).count()
                        };
                        let full = if ordinary(None) >= all {
                            Some(ConnectionLimit::all)
                        } else if ordinary(Some(from_address)) >= address {
                            Some(ConnectionLimit::address)
                        } else {
                            None
                        };
                        let evicted = model.iter().position(|(_, has_request)| !has_request);
                        let has_reserve = model.len() < reserved || evicted.is_some();
                        match (admission.admit(from(&format!("10.0.0.{from_address}"))), full) {
                            (Admitted::Ordinary(slot), None) => open.push(Open::Ordinary { address: from_address, _slot: slot }),
                            (Admitted::Reserved(slot, reason), Some(full)) => {
                                prop_assert!(has_reserve);
                                prop_assert_eq!(reason, full);
                                if model.len() >= reserved {
                                    model.remove(evicted.unwrap());
                                }
                                model.push((number, false));
                                open.push(Open::Reserved(number, slot));
                            }
                            (Admitted::Refused(reason), Some(full)) => {
                                prop_assert!(!has_reserve);
                                prop_assert_eq!(reason, full);
                            }
                            (admitted, full) => prop_assert!(false, "{admitted:?} with {full:?}"),
                        }
                    }
                    Op::Close(at) if !open.is_empty() => {
                        if let Open::Reserved(number, _) = open.remove(at % open.len()) {
                            model.retain(|(other, _)| *other != number);
                        }
                    }
                    Op::SendRequest(at) if !open.is_empty() => {
                        let at = at % open.len();
                        if let Open::Reserved(number, slot) = &open[at] {
                            slot.reserved.mark_request();
                            model.iter_mut().filter(|(other, _)| other == number).for_each(|(_, sent)| *sent = true);
                        }
                    }
                    Op::Close(_) | Op::SendRequest(_) => {}
                }
                prop_assert!(lock(&admission.counts).reserved.len() == model.len() && model.len() <= reserved);
            }
            drop(open);
            let counts = lock(&admission.counts);
            prop_assert_eq!((counts.ordinary, counts.by_address.len(), counts.reserved.len()), (0, 0, 0));
        }
    }
}
