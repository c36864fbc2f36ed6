//! The way to others of a later version: whatever goes out has more in it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bucksaw_env::{Body, BoxFuture, DATAGRAM_BYTES_MAX, IncomingCall, Net, Reply, Tasks, sim};
use bucksaw_fixtures::with_unknown_fields;

use super::stream::{CallBodyFormat, extend};
use crate::append::APPEND;

/// What a datagram with facts begins with, and one of a kind that nobody knows yet.
const FACTS: [u8; 2] = [1, 2];
const UNKNOWN: [u8; 2] = [1, 200];

/// The network, as a later version uses it.
#[derive(Debug)]
pub(super) struct FutureNet {
    net: Arc<dyn Net>,
    tasks: Arc<dyn Tasks>,
    /// No two messages have the same added.
    count: Arc<AtomicU64>,
}

impl FutureNet {
    pub(super) fn new(host: &sim::Host) -> Self {
        Self { net: host.net(), tasks: host.tasks(), count: Arc::default() }
    }
}

fn next_count(count: &AtomicU64) -> u64 {
    count.fetch_add(1, Ordering::Relaxed)
}

/// What a call asks and is answered with; none for what only simulations say.
fn body_formats(name: &str) -> Option<[CallBodyFormat; 2]> {
    Some(match name {
        APPEND => return None,
        "store/put" => [CallBodyFormat::WithHead, CallBodyFormat::Json],
        "store/held-ids" => [CallBodyFormat::WithHead, CallBodyFormat::WithHead],
        "ingest/fetch" => [CallBodyFormat::Json, CallBodyFormat::WithHead],
        name if name.starts_with("query/") => [CallBodyFormat::Json, CallBodyFormat::Messages],
        _ => [CallBodyFormat::Json, CallBodyFormat::Json],
    })
}

impl Net for FutureNet {
    fn address(&self) -> SocketAddr {
        self.net.address()
    }

    fn resolve(&self, host: &str) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        self.net.resolve(host)
    }

    fn send(&self, to: SocketAddr, datagram: Vec<u8>) {
        let Some(grown) =
            datagram.strip_prefix(&FACTS).and_then(|facts| with_unknown_fields(facts, next_count(&self.count)))
        else {
            return self.net.send(to, datagram);
        };
        let grown = [&FACTS[..], &grown].concat();
        let fits = grown.len() <= DATAGRAM_BYTES_MAX;
        self.net.send(to, if fits { grown } else { datagram });
        self.net.send(to, [&UNKNOWN[..], b"of a version to come"].concat());
    }

    fn receive(&self) -> BoxFuture<(SocketAddr, Vec<u8>)> {
        self.net.receive()
    }

    fn call(&self, to: SocketAddr, name: &str, body: Body) -> BoxFuture<io::Result<Body>> {
        let (net, tasks, seed, name) =
            (Arc::clone(&self.net), Arc::clone(&self.tasks), next_count(&self.count), name.to_owned());
        Box::pin(async move {
            let body = match body_formats(&name) {
                Some([asks, _]) => extend(asks, body, &tasks, seed).await?,
                None => body,
            };
            net.call(to, &name, body).await
        })
    }

    fn accept(&self) -> BoxFuture<IncomingCall> {
        let (accepted, tasks, count) = (self.net.accept(), Arc::clone(&self.tasks), Arc::clone(&self.count));
        Box::pin(async move {
            let IncomingCall { name, body, reply } = accepted.await;
            let Some([_, answers]) = body_formats(&name) else { return IncomingCall { name, body, reply } };
            let (inner, told) = Reply::channel();
            let (growing, seed) = (Arc::clone(&tasks), next_count(&count));
            tasks.spawn(Box::pin(async move {
                // Dropped without an answer it is dropped here, too.
                let Ok(answer) = told.await else { return };
                reply.send(match answer {
                    Ok(body) => extend(answers, body, &growing, seed).await,
                    Err(error) => Err(error),
                });
            }));
            IncomingCall { name, body, reply: inner }
        })
    }
}
