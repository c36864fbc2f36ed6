//! The door to the network of one node.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Poll, Waker};

use tokio::sync::oneshot;

use super::connection;
use super::executor::{Executor, WorldState};
use super::host_state::{HostState, HostStatus, ProcessId};
use super::run_hash::TraceEvent;
use crate::{Body, BoxFuture, DATAGRAM_BYTES_MAX, IncomingCall};

#[derive(Debug)]
pub(super) struct Net {
    pub(super) executor: Arc<Executor>,
    pub(super) process: ProcessId,
    pub(super) address: SocketAddr,
}

impl crate::Net for Net {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn resolve(&self, host: &str) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        let (shared, life, host) = (Arc::clone(&self.executor), self.process, host.to_owned());
        Box::pin(async move {
            let delay = shared.state().delay((life.host, life.host));
            shared.sleep(delay).await;
            resolve_address(&shared.state(), &host).ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    fn send(&self, to: SocketAddr, datagram: Vec<u8>) {
        // Longer ones pass through some networks only, so it is a bug that a simulation should find.
        assert!(datagram.len() <= DATAGRAM_BYTES_MAX, "a datagram of {} bytes", datagram.len());
        let state = self.executor.state();
        if !state.is_running(Some(self.process)) {
            return;
        }
        let Some(host) = state.hosts.iter().position(|host| host.address == to) else { return };
        let way = (self.process.host, host);
        let copies = if state.rng.with_probability(state.links.conditions(way).duplication) { 2 } else { 1 };
        let delays: Vec<_> = (0..copies).filter(|_| state.is_delivered(way)).map(|_| state.delay(way)).collect();
        drop(state);
        for delay in delays {
            let (shared, from, datagram) = (Arc::clone(&self.executor), self.address, datagram.clone());
            self.executor.schedule(delay, None, Box::new(move || deliver_datagram(&shared, way, from, datagram)));
        }
    }

    fn receive(&self) -> BoxFuture<(SocketAddr, Vec<u8>)> {
        let (shared, life) = (Arc::clone(&self.executor), self.process);
        Box::pin(poll_fn(move |context| poll(&shared, life, |host| host.datagrams.poll(context))))
    }

    fn call(&self, to: SocketAddr, name: &str, body: Body) -> BoxFuture<io::Result<Body>> {
        let (tell, told) = oneshot::channel();
        if self.executor.state().is_running(Some(self.process)) {
            let call = connection::OutgoingCall { from: self.process, to, name: name.to_owned(), body };
            self.executor.spawn(None, Box::pin(connection::run_call(Arc::clone(&self.executor), call, tell)));
        }
        Box::pin(async move { told.await.unwrap_or_else(|_| Err(io::ErrorKind::ConnectionReset.into())) })
    }

    fn accept(&self) -> BoxFuture<IncomingCall> {
        let (shared, life) = (Arc::clone(&self.executor), self.process);
        Box::pin(poll_fn(move |context| poll(&shared, life, |host| host.calls.poll(context))))
    }
}

/// Takes from a queue of a node, if it is still the same.
fn poll<T>(
    shared: &Executor,
    life: ProcessId,
    take: impl FnOnce(&mut HostState) -> (Poll<T>, Option<Waker>),
) -> Poll<T> {
    let mut state = shared.state();
    if !state.is_running(Some(life)) {
        return Poll::Pending;
    }
    let (taken, before) = take(state.host(life.host));
    drop(state);
    drop(before);
    taken
}

/// Puts a datagram where it is received, if the way is not cut by now and there is room.
fn deliver_datagram(shared: &Executor, way: (usize, usize), from: SocketAddr, datagram: Vec<u8>) {
    let mut state = shared.state();
    if state.host(way.1).status != HostStatus::Up || state.links.is_cut(way) {
        return;
    }
    state.trace.add_bytes(TraceEvent::Datagram, (way.0 as u64) << 32 | way.1 as u64, &datagram);
    let waker = state.host(way.1).datagrams.push((from, datagram));
    drop(state);
    if let Ok(Some(waker)) = waker {
        waker.wake();
    }
}

/// The addresses of `host:port`.
fn resolve_address(state: &WorldState, host: &str) -> Option<Vec<SocketAddr>> {
    if let Ok(address) = host.parse() {
        return Some(vec![address]);
    }
    let (name, port) = host.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let found = state.links.addresses(name)?;
    Some(found.iter().map(|address| SocketAddr::new(address.ip(), port)).collect())
}
