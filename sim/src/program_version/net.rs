//! The network of a later version, which adds to everything that it sends.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bucksaw_env::{Body, BoxFuture, DATAGRAM_BYTES_MAX, IncomingCall, Net, Reply, Tasks, sim};
use bucksaw_fixtures::with_unknown_fields;

use super::stream::{CallBodyFormat, extend};
use crate::append::APPEND;

/// The first bytes of a datagram with facts, and of one of an unknown kind.
const FACTS: [u8; 2] = [1, 2];
const UNKNOWN: [u8; 2] = [1, 200];

/// Adds unknown fields and messages to everything sent.
#[derive(Debug)]
pub(super) struct FutureNet {
    net: Arc<dyn Net>,
    tasks: Arc<dyn Tasks>,
    /// The seed of the next addition.
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

/// The formats of request and reply; `None` for calls of the simulation.
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
        let Some(extended) =
            datagram.strip_prefix(&FACTS).and_then(|facts| with_unknown_fields(facts, next_count(&self.count)))
        else {
            return self.net.send(to, datagram);
        };
        let extended = [&FACTS[..], &extended].concat();
        let fits = extended.len() <= DATAGRAM_BYTES_MAX;
        self.net.send(to, if fits { extended } else { datagram });
        self.net.send(to, [&UNKNOWN[..], b"of a later version"].concat());
    }

    fn receive(&self) -> BoxFuture<(SocketAddr, Vec<u8>)> {
        self.net.receive()
    }

    fn call(&self, to: SocketAddr, name: &str, body: Body) -> BoxFuture<io::Result<Body>> {
        let (net, tasks, seed, name) =
            (Arc::clone(&self.net), Arc::clone(&self.tasks), next_count(&self.count), name.to_owned());
        Box::pin(async move {
            let body = match body_formats(&name) {
                Some([request, _]) => extend(request, body, &tasks, seed).await?,
                None => body,
            };
            net.call(to, &name, body).await
        })
    }

    fn accept(&self) -> BoxFuture<IncomingCall> {
        let (accepted, tasks, count) = (self.net.accept(), Arc::clone(&self.tasks), Arc::clone(&self.count));
        Box::pin(async move {
            let IncomingCall { name, body, reply } = accepted.await;
            let Some([_, reply_format]) = body_formats(&name) else { return IncomingCall { name, body, reply } };
            let (inner, receiver) = Reply::channel();
            let (extending, seed) = (Arc::clone(&tasks), next_count(&count));
            tasks.spawn(Box::pin(async move {
                // If the inner reply is dropped, so is this one.
                let Ok(inner_reply) = receiver.await else { return };
                reply.send(match inner_reply {
                    Ok(body) => extend(reply_format, body, &extending, seed).await,
                    Err(error) => Err(error),
                });
            }));
            IncomingCall { name, body, reply: inner }
        })
    }
}
