//! A store with its peers, network, tasks and timeouts.

use std::io;
use std::sync::Arc;

use bucksaw_env::{File, Net, Tasks, run_blocking, run_blocking_low_priority, with_timeout};
use bucksaw_record::Id;
use bucksaw_rpc::BodyRemainder;

use crate::peers::{PeerTimeouts, Peers};
use crate::segment_store::SegmentStore;

/// What pulling, replication, receiving and repair share.
#[derive(Clone, Debug)]
pub struct ReplicationContext {
    /// This node.
    pub node: Id,
    /// The local store.
    pub store: Arc<SegmentStore>,
    /// The other nodes.
    pub peers: Arc<dyn Peers>,
    /// Runs tasks and timers.
    pub tasks: Arc<dyn Tasks>,
    /// Calls other nodes.
    pub net: Arc<dyn Net>,
    /// Timeouts of calls.
    pub timeouts: PeerTimeouts,
}

impl ReplicationContext {
    /// Runs work that may block on another thread.
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
    /// Those of [`Self::read_chunk`], `UnexpectedEof`, or those of the file.
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

/// The error of a timeout.
pub(crate) fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "timed out waiting for data")
}
