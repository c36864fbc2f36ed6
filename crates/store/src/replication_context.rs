//! A store, and what links it to the others.

use std::io;
use std::sync::Arc;

use bucksaw_env::{File, Net, Tasks, run_blocking, run_blocking_low_priority, with_timeout};
use bucksaw_record::Id;
use bucksaw_rpc::BodyRemainder;

use crate::peers::{PeerTimeouts, Peers};
use crate::segment_store::SegmentStore;

/// A store, and what links it to the others: what pulling, copying, receiving and repair need.
#[derive(Clone, Debug)]
pub struct ReplicationContext {
    /// This node.
    pub node: Id,
    /// Its store.
    pub store: Arc<SegmentStore>,
    /// The others.
    pub peers: Arc<dyn Peers>,
    /// Tasks and time.
    pub tasks: Arc<dyn Tasks>,
    /// How others are called.
    pub net: Arc<dyn Net>,
    /// How long others are waited for.
    pub timeouts: PeerTimeouts,
}

impl ReplicationContext {
    /// Does work that may block away from the tasks.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let done = run_blocking(&self.tasks, work).await;
        done.unwrap_or_else(|| Err(io::Error::other("it was given up because of a bug")))
    }

    /// Does work of the store that nobody waits for, away from the tasks: at a lower priority, unless too much has piled up.
    /// `None` when it was given up because of a bug.
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

    /// The next piece of what comes, of `most` bytes at most; `None` at its end.
    ///
    /// # Errors
    /// The sender failed, or timed out waiting for data.
    pub(crate) async fn read_chunk(&self, rest: &mut BodyRemainder, most: u64) -> io::Result<Option<bytes::Bytes>> {
        with_timeout(&self.tasks, self.timeouts.piece, rest.next_chunk(most)).await.ok_or_else(timed_out)?
    }

    /// Appends so many bytes of what comes to a file.
    ///
    /// # Errors
    /// Those of [`Self::piece`], an end before these bytes, or the file's.
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

/// Nothing came for too long.
pub(crate) fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "timed out waiting for data")
}
