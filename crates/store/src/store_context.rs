//! The parts of a node that its store uses: its identity, its environment and its peers.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bucksaw_env::{Env, File, Net, Tasks, run_blocking, run_blocking_low_priority, with_timeout};
use bucksaw_record::Id;
use bucksaw_rpc::BodyRemainder;

use crate::metrics::Metrics;
use crate::peers::{PeerTimeouts, Peers};
use crate::store::Store;

/// What pulling, replication and repair have in common. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StoreContext {
    /// This node.
    pub node: Id,
    /// The local store.
    pub store: Arc<dyn Store>,
    /// A directory for fetched segments. Leftovers of a crash end in `.tmp`, and are removed when the store is opened.
    pub temp_dir: PathBuf,
    /// Files, time and random numbers.
    pub env: Env,
    /// The other nodes.
    pub peers: Arc<dyn Peers>,
    /// Runs tasks and timers.
    pub tasks: Arc<dyn Tasks>,
    /// Calls other nodes.
    pub net: Arc<dyn Net>,
    /// Timeouts of calls.
    pub timeouts: PeerTimeouts,
    /// The metrics of the store.
    pub metrics: Metrics,
    /// Whether more open files would take the descriptors of connections. Meanwhile nothing is accepted from other nodes;
    /// merges and retention continue and reduce the number of files.
    pub is_short_of_descriptors: Arc<AtomicBool>,
}

impl StoreContext {
    pub(crate) fn is_short_of_descriptors(&self) -> bool {
        self.is_short_of_descriptors.load(Ordering::Relaxed)
    }

    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let done = run_blocking(&self.tasks, work).await;
        done.unwrap_or_else(|| Err(io::Error::other("the blocking task panicked")))
    }

    /// Runs background work on another thread, with low priority unless the store is backlogged. `None` if it panicked.
    pub async fn run_blocking_low_priority<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if self.store.is_backlogged() {
            run_blocking(&self.tasks, work).await
        } else {
            run_blocking_low_priority(&self.tasks, work).await
        }
    }

    /// The next chunk of a body, of at most `bytes_max` bytes; `None` at its end.
    ///
    /// # Errors
    /// The sender failed, or timed out waiting for data.
    pub(crate) async fn read_chunk(
        &self,
        rest: &mut BodyRemainder,
        bytes_max: u64,
    ) -> io::Result<Option<bytes::Bytes>> {
        with_timeout(&self.tasks, self.timeouts.piece, rest.next_chunk(bytes_max)).await.ok_or_else(timed_out)?
    }

    /// Appends `bytes` bytes of a body to a file.
    ///
    /// # Errors
    /// The errors of [`Self::read_chunk`] and of the file, and `UnexpectedEof`.
    pub(crate) async fn append_to_file(
        &self,
        rest: &mut BodyRemainder,
        bytes: u64,
        file: &Arc<dyn File>,
    ) -> io::Result<()> {
        let mut left = bytes;
        while left > 0 {
            let piece = self.read_chunk(rest, left).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
            left -= piece.len() as u64;
            let file = Arc::clone(file);
            self.run_blocking(move || file.append(&[&piece])).await?;
        }
        Ok(())
    }
}

pub(crate) fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "timed out waiting for data")
}
