//! The way to others of a later version: whatever goes out has more in it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bucksaw_doors::{Body, DATAGRAM_BYTES_MAX, Incoming, Net, Reply, Tasks, Waiting, sim};
use bucksaw_versions::later;

use super::stream::{Form, grow};
use crate::append::APPEND;

/// What a datagram with facts begins with, and one of a kind that nobody knows yet.
const FACTS: [u8; 2] = [1, 2];
const UNKNOWN: [u8; 2] = [1, 200];

/// The network, as a later version uses it.
#[derive(Debug)]
pub(super) struct Later {
    net: Arc<dyn Net>,
    tasks: Arc<dyn Tasks>,
    /// No two messages have the same added.
    count: Arc<AtomicU64>,
}

impl Later {
    pub(super) fn new(host: &sim::Node) -> Self {
        Self { net: host.net(), tasks: host.tasks(), count: Arc::default() }
    }
}

fn next(count: &AtomicU64) -> u64 {
    count.fetch_add(1, Ordering::Relaxed)
}

/// What a call asks and is answered with; none for what only simulations say.
fn forms(name: &str) -> Option<[Form; 2]> {
    Some(match name {
        APPEND => return None,
        "store/put" => [Form::Headed, Form::Json],
        "store/ids" => [Form::Headed, Form::Headed],
        "ingest/take" => [Form::Json, Form::Headed],
        name if name.starts_with("query/") => [Form::Json, Form::Messages],
        _ => [Form::Json, Form::Json],
    })
}

impl Net for Later {
    fn address(&self) -> SocketAddr {
        self.net.address()
    }

    fn resolve(&self, host: &str) -> Waiting<io::Result<Vec<SocketAddr>>> {
        self.net.resolve(host)
    }

    fn send(&self, to: SocketAddr, datagram: Vec<u8>) {
        let Some(grown) = datagram.strip_prefix(&FACTS).and_then(|facts| later(facts, next(&self.count))) else {
            return self.net.send(to, datagram);
        };
        let grown = [&FACTS[..], &grown].concat();
        let fits = grown.len() <= DATAGRAM_BYTES_MAX;
        self.net.send(to, if fits { grown } else { datagram });
        self.net.send(to, [&UNKNOWN[..], b"of a version to come"].concat());
    }

    fn receive(&self) -> Waiting<(SocketAddr, Vec<u8>)> {
        self.net.receive()
    }

    fn call(&self, to: SocketAddr, name: &str, body: Body) -> Waiting<io::Result<Body>> {
        let (net, tasks, seed, name) =
            (Arc::clone(&self.net), Arc::clone(&self.tasks), next(&self.count), name.to_owned());
        Box::pin(async move {
            let body = match forms(&name) {
                Some([asks, _]) => grow(asks, body, &tasks, seed).await?,
                None => body,
            };
            net.call(to, &name, body).await
        })
    }

    fn accept(&self) -> Waiting<Incoming> {
        let (accepted, tasks, count) = (self.net.accept(), Arc::clone(&self.tasks), Arc::clone(&self.count));
        Box::pin(async move {
            let Incoming { name, body, reply } = accepted.await;
            let Some([_, answers]) = forms(&name) else { return Incoming { name, body, reply } };
            let (inner, told) = Reply::channel();
            let (growing, seed) = (Arc::clone(&tasks), next(&count));
            tasks.spawn(Box::pin(async move {
                // Dropped without an answer it is dropped here, too.
                let Ok(answer) = told.await else { return };
                reply.send(match answer {
                    Ok(body) => grow(answers, body, &growing, seed).await,
                    Err(error) => Err(error),
                });
            }));
            Incoming { name, body, reply: inner }
        })
    }
}
