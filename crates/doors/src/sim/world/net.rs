//! The door to the network of one node.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Poll, Waker};

use tokio::sync::oneshot;

use super::executor::{Shared, State};
use super::host::{Condition, Host, Life};
use super::trace::Event;
use super::wire;
use crate::{Body, DATAGRAM_BYTES_MAX, Incoming, Waiting};

#[derive(Debug)]
pub(super) struct Net {
    pub(super) shared: Arc<Shared>,
    pub(super) life: Life,
    pub(super) address: SocketAddr,
}

impl crate::Net for Net {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn resolve(&self, host: &str) -> Waiting<io::Result<Vec<SocketAddr>>> {
        let (shared, life, host) = (Arc::clone(&self.shared), self.life, host.to_owned());
        Box::pin(async move {
            let delay = shared.state().delay((life.host, life.host));
            shared.sleep(delay).await;
            find(&shared.state(), &host).ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    fn send(&self, to: SocketAddr, datagram: Vec<u8>) {
        // Longer ones pass through some networks only, so it is a bug that a simulation should find.
        assert!(datagram.len() <= DATAGRAM_BYTES_MAX, "a datagram of {} bytes", datagram.len());
        let state = self.shared.state();
        if !state.lives(Some(self.life)) {
            return;
        }
        let Some(host) = state.hosts.iter().position(|host| host.address == to) else { return };
        let way = (self.life.host, host);
        let copies = if state.dice.chance(state.links.weather(way).twice) { 2 } else { 1 };
        let delays: Vec<_> = (0..copies).filter(|_| state.passes(way)).map(|_| state.delay(way)).collect();
        drop(state);
        for delay in delays {
            let (shared, from, datagram) = (Arc::clone(&self.shared), self.address, datagram.clone());
            self.shared.after(delay, None, Box::new(move || arrive(&shared, way, from, datagram)));
        }
    }

    fn receive(&self) -> Waiting<(SocketAddr, Vec<u8>)> {
        let (shared, life) = (Arc::clone(&self.shared), self.life);
        Box::pin(poll_fn(move |context| poll(&shared, life, |host| host.datagrams.poll(context))))
    }

    fn call(&self, to: SocketAddr, name: &str, body: Body) -> Waiting<io::Result<Body>> {
        let (tell, told) = oneshot::channel();
        if self.shared.state().lives(Some(self.life)) {
            let call = wire::Call { from: self.life, to, name: name.to_owned(), body };
            self.shared.spawn(None, Box::pin(wire::carry(Arc::clone(&self.shared), call, tell)));
        }
        Box::pin(async move { told.await.unwrap_or_else(|_| Err(io::ErrorKind::ConnectionReset.into())) })
    }

    fn accept(&self) -> Waiting<Incoming> {
        let (shared, life) = (Arc::clone(&self.shared), self.life);
        Box::pin(poll_fn(move |context| poll(&shared, life, |host| host.calls.poll(context))))
    }
}

/// Takes from a queue of a node, if it is still the same.
fn poll<T>(shared: &Shared, life: Life, take: impl FnOnce(&mut Host) -> (Poll<T>, Option<Waker>)) -> Poll<T> {
    let mut state = shared.state();
    if !state.lives(Some(life)) {
        return Poll::Pending;
    }
    let (taken, before) = take(state.host(life.host));
    drop(state);
    drop(before);
    taken
}

/// Puts a datagram where it is received, if the way is not cut by now and there is room.
fn arrive(shared: &Shared, way: (usize, usize), from: SocketAddr, datagram: Vec<u8>) {
    let mut state = shared.state();
    if state.host(way.1).condition != Condition::Up || state.links.is_cut(way) {
        return;
    }
    state.trace.note_bytes(Event::Datagram, (way.0 as u64) << 32 | way.1 as u64, &datagram);
    let waker = state.host(way.1).datagrams.push((from, datagram));
    drop(state);
    if let Ok(Some(waker)) = waker {
        waker.wake();
    }
}

/// The addresses of `host:port`.
fn find(state: &State, host: &str) -> Option<Vec<SocketAddr>> {
    if let Ok(address) = host.parse() {
        return Some(vec![address]);
    }
    let (name, port) = host.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let found = state.links.addresses(name)?;
    Some(found.iter().map(|address| SocketAddr::new(address.ip(), port)).collect())
}
