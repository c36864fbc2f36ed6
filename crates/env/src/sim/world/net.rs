//! The network of one process.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Poll, Waker};

use tokio::sync::oneshot;

use super::connection;
use super::executor::{Executor, WorldState};
use super::host_state::{HostState, HostStatus};
use super::link_table::LinkId;
use super::process_id::ProcessId;
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
        let (executor, process, host) = (Arc::clone(&self.executor), self.process, host.to_owned());
        Box::pin(async move {
            let delay = executor.state().delay((process.host, process.host));
            executor.sleep(delay).await;
            resolve_address(&executor.state(), &host).ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    fn send(&self, to: SocketAddr, datagram: Vec<u8>) {
        // A longer one fails on some real networks, so it is a bug.
        assert!(datagram.len() <= DATAGRAM_BYTES_MAX, "a datagram of {} bytes", datagram.len());
        let state = self.executor.state();
        if !state.is_running(Some(self.process)) {
            return;
        }
        let Some(host) = state.hosts.iter().position(|host| host.address == to) else { return };
        let link = (self.process.host, host);
        let copies = if state.rng.with_probability(state.links.conditions(link).duplication) { 2 } else { 1 };
        let delays: Vec<_> = (0..copies).filter(|_| state.is_delivered(link)).map(|_| state.delay(link)).collect();
        drop(state);
        for delay in delays {
            let (executor, from, datagram) = (Arc::clone(&self.executor), self.address, datagram.clone());
            self.executor.schedule(delay, None, Box::new(move || deliver_datagram(&executor, link, from, datagram)));
        }
    }

    fn receive(&self) -> BoxFuture<(SocketAddr, Vec<u8>)> {
        let (executor, process) = (Arc::clone(&self.executor), self.process);
        Box::pin(poll_fn(move |context| poll(&executor, process, |host| host.datagrams.poll(context))))
    }

    fn call(&self, to: SocketAddr, name: &str, body: Body) -> BoxFuture<io::Result<Body>> {
        let (sender, reply) = oneshot::channel();
        if self.executor.state().is_running(Some(self.process)) {
            let call = connection::OutgoingCall { from: self.process, to, name: name.to_owned(), body };
            self.executor.spawn(None, Box::pin(connection::run_call(Arc::clone(&self.executor), call, sender)));
        }
        Box::pin(async move { reply.await.unwrap_or_else(|_| Err(io::ErrorKind::ConnectionReset.into())) })
    }

    fn accept(&self) -> BoxFuture<IncomingCall> {
        let (executor, process) = (Arc::clone(&self.executor), self.process);
        Box::pin(poll_fn(move |context| poll(&executor, process, |host| host.calls.poll(context))))
    }
}

/// Takes from a mailbox of the host; never resolves after the process has ended.
fn poll<T>(
    executor: &Executor,
    process: ProcessId,
    take: impl FnOnce(&mut HostState) -> (Poll<T>, Option<Waker>),
) -> Poll<T> {
    let mut state = executor.state();
    if !state.is_running(Some(process)) {
        return Poll::Pending;
    }
    let (item, before) = take(state.host(process.host));
    drop(state);
    drop(before);
    item
}

/// Delivers a datagram unless the link is cut, the host is down or its mailbox is full.
fn deliver_datagram(executor: &Executor, link: LinkId, from: SocketAddr, datagram: Vec<u8>) {
    let mut state = executor.state();
    if state.host(link.1).status != HostStatus::Up || state.links.is_cut(link) {
        return;
    }
    state.trace.add_bytes(TraceEvent::Datagram, (link.0 as u64) << 32 | link.1 as u64, &datagram);
    let waker = state.host(link.1).datagrams.push((from, datagram));
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
