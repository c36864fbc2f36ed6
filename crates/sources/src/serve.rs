//! Accepts connections, and ends them in order.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{log_limited, wait_for_stop};
use bucksaw_tls::AppProtocol;

use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tracing::{error, warn};

use crate::acceptor::{AcceptedConnection, Acceptor};
use crate::connection;
use crate::listener_setup::ListenerSetup;
use crate::listener_state::{ListenerState, TcpIntake};

/// After the stop the backlog counts as empty when no connection arrives for this time.
const BACKLOG_QUIET: Duration = Duration::from_millis(20);

/// How long connections are accepted after the stop, at most.
const BACKLOG_TIMEOUT: Duration = Duration::from_secs(1);

/// How long all connections may take to end after the stop.
const CONNECTIONS_END_TIMEOUT: Duration = Duration::from_secs(15);

/// Serves a listener until `stop` is true or its sender is dropped, and then until the connections have ended. Dropping the future
/// ends all connections at once.
pub async fn serve(listener: TcpListener, setup: ListenerSetup, tcp: TcpIntake, stop: watch::Receiver<bool>) {
    let slots = Arc::new(Semaphore::new(tcp.config.connections_max.clamp(1, Semaphore::MAX_PERMITS)));
    let acceptor = Acceptor::new(listener, Arc::clone(&tcp.intake.env.clock), tcp.metrics.accept_failed.clone());
    let acceptor = acceptor.with_tls(tcp.config.tls.clone(), AppProtocol::Other);
    let shared = Arc::new(ListenerState::new(setup, tcp));
    let mut tasks = JoinSet::new();
    let mut end = stop.clone();
    loop {
        tokio::select! {
            biased;
            () = wait_for_stop(&mut end) => break,
            Some(ended) = tasks.join_next() => log_panic(ended),
            accepted = accept(&acceptor, &slots, &shared) => spawn_connection(&mut tasks, accepted, (&slots, &shared), &stop),
        }
    }
    // To a client in the backlog the connection is established, and it may have sent all of its records.
    let backlog = async {
        while let Ok(accepted) = tokio::time::timeout(BACKLOG_QUIET, accept(&acceptor, &slots, &shared)).await {
            spawn_connection(&mut tasks, accepted, (&slots, &shared), &stop);
        }
    };
    let _ = tokio::time::timeout(BACKLOG_TIMEOUT, backlog).await;
    drop(acceptor);
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            log_panic(ended);
        }
    };
    if tokio::time::timeout(CONNECTIONS_END_TIMEOUT, all).await.is_err() {
        warn!(connections = tasks.len(), "connections did not end within the stop timeout; aborting them");
        tasks.shutdown().await;
    }
}

/// A connection, its client, and its slots unless its handshake comes first.
type Accepted = (AcceptedConnection, SocketAddr, Option<ConnectionPermits>);

/// A slot of the listener, and one of all listeners together.
type ConnectionPermits = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// Returns the next accepted connection with a free slot. Closes the others at once, because they would hold
/// descriptors that the queue's files need. A connection with a handshake takes its slot afterwards.
async fn accept(acceptor: &Acceptor, slots: &Arc<Semaphore>, shared: &ListenerState) -> Accepted {
    loop {
        let (connection, peer) = acceptor.accept().await;
        if matches!(connection, AcceptedConnection::Handshake(_)) {
            return (connection, peer, None);
        }
        if let Some(permits) = acquire_permits(slots, shared) {
            return (connection, peer, Some(permits));
        }
    }
}

/// Takes a slot, or counts a refused connection.
fn acquire_permits(slots: &Arc<Semaphore>, shared: &ListenerState) -> Option<ConnectionPermits> {
    let own = Arc::clone(slots).try_acquire_owned().ok();
    let permits = own.and_then(|own| Some((own, shared.slots.try_acquire()?)));
    if permits.is_none() {
        shared.refused.inc();
        log_limited!(
            shared.log_limits,
            warn,
            listener = shared.setup.name,
            "all connections are in use; new ones are closed: raise the limit of open files, or use fewer"
        );
    }
    permits
}

fn spawn_connection(
    tasks: &mut JoinSet<()>,
    (connection, peer, permits): Accepted,
    (slots, shared): (&Arc<Semaphore>, &Arc<ListenerState>),
    stop: &watch::Receiver<bool>,
) {
    let (slots, shared, stop) = (Arc::clone(slots), Arc::clone(shared), stop.clone());
    tasks.spawn(async move {
        let (socket, permits) = match connection {
            AcceptedConnection::Open(socket) => (socket, permits),
            AcceptedConnection::Handshake(handshake) => {
                // Boxed, because its state is large and short-lived.
                let Some(socket) = Box::pin(handshake.run(stop.clone())).await else { return };
                (socket, acquire_permits(&slots, &shared))
            }
        };
        let Some(permits) = permits else { return };
        connection::run(socket, peer, shared, stop).await;
        drop(permits);
    });
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        error!(%error, "a connection task panicked");
    }
}
