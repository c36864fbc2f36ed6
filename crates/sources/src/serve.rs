//! Accepting connections, and ending them in order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_ingest::Durability;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tracing::{error, warn};

use crate::connection;
use crate::feed::stopped;
use crate::shared::{Intake, Shared};

/// After a failed accept (no descriptors left, mostly) it is tried again after this.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// After the stop the backlog counts as empty when nothing comes for so long.
const BACKLOG_QUIET: Duration = Duration::from_millis(20);

/// The backlog of a listener to which clients still come is not waited out for longer.
const BACKLOG_MAX: Duration = Duration::from_secs(1);

/// How long all connections together have to end after the stop.
const END_MAX: Duration = Duration::from_secs(15);

/// Serves a listener until `stop` turns true or its sender is gone, and then until the connections have ended. Their
/// records are appended with `durability`.
///
/// Dropping the future instead ends all connections at once.
pub async fn serve(listener: TcpListener, durability: Durability, intake: Intake, stop: watch::Receiver<bool>) {
    let slots = Arc::new(Semaphore::new(intake.config.connections_max.clamp(1, Semaphore::MAX_PERMITS)));
    let shared = Arc::new(Shared::new(durability, intake));
    let mut tasks = JoinSet::new();
    let mut end = stop.clone();
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut end) => break,
            Some(ended) = tasks.join_next() => note(ended),
            accepted = accept(&listener, &slots, &shared) => start(&mut tasks, accepted, &shared, &stop),
        }
    }
    // Whoever is in the backlog believes to be connected and may have sent all that it had to say.
    let backlog = async {
        while let Ok(accepted) = tokio::time::timeout(BACKLOG_QUIET, accept(&listener, &slots, &shared)).await {
            start(&mut tasks, accepted, &shared, &stop);
        }
    };
    let _ = tokio::time::timeout(BACKLOG_MAX, backlog).await;
    drop(listener);
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            note(ended);
        }
    };
    if tokio::time::timeout(END_MAX, all).await.is_err() {
        warn!(connections = tasks.len(), "connections did not end in time; they are cut off");
        tasks.shutdown().await;
    }
}

type Accepted = (TcpStream, SocketAddr, OwnedSemaphorePermit);

/// The next connection, when there is room for one.
async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>, shared: &Shared) -> Accepted {
    if slots.available_permits() == 0 && shared.may_warn() {
        warn!(durability = %shared.durability, "all connections are in use; new ones wait until one closes");
    }
    loop {
        let Ok(slot) = Arc::clone(slots).acquire_owned().await else {
            // The semaphore is never closed.
            return std::future::pending().await;
        };
        match listener.accept().await {
            Ok((socket, peer)) => return (socket, peer, slot),
            Err(error) => {
                shared.intake.metrics.accept_failed.inc();
                if shared.may_warn() {
                    error!(%error, "cannot accept a connection: is the limit of open files too low?");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn start(tasks: &mut JoinSet<()>, (socket, peer, slot): Accepted, shared: &Arc<Shared>, stop: &watch::Receiver<bool>) {
    let (shared, stop) = (Arc::clone(shared), stop.clone());
    tasks.spawn(async move {
        connection::run(socket, peer, shared, stop).await;
        drop(slot);
    });
}

fn note(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        error!(%error, "a connection ended by a bug in this program");
    }
}
