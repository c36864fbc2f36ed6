//! A store, and what links it to the others.

use std::io;
use std::sync::Arc;

use bucksaw_doors::{File, Net, Tasks, run, run_modestly, within};
use bucksaw_ingest::handover::Rest;
use bucksaw_record::Id;

use crate::peers::{Patience, Peers};
use crate::shelf::Shelf;

/// A store, and what links it to the others: what pulling, copying, receiving and repair need.
#[derive(Clone, Debug)]
pub struct Linked {
    /// This node.
    pub node: Id,
    /// Its store.
    pub shelf: Arc<Shelf>,
    /// The others.
    pub peers: Arc<dyn Peers>,
    /// Tasks and time.
    pub tasks: Arc<dyn Tasks>,
    /// How others are called.
    pub net: Arc<dyn Net>,
    /// How long others are waited for.
    pub patience: Patience,
}

impl Linked {
    /// Does work that may block away from the tasks.
    pub(crate) async fn away<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let done = run(&self.tasks, work).await;
        done.unwrap_or_else(|| Err(io::Error::other("it was given up because of a bug")))
    }

    /// Does work of the shelf that nobody waits for, away from the tasks: at a lower priority, unless too much has piled up.
    /// `None` when it was given up because of a bug.
    pub async fn away_modestly<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        if self.shelf.is_pressed() { run(&self.tasks, work).await } else { run_modestly(&self.tasks, work).await }
    }

    /// The next piece of what comes, of `most` bytes at most; `None` at its end.
    ///
    /// # Errors
    /// The sender failed, or nothing came for too long.
    pub(crate) async fn piece(&self, rest: &mut Rest, most: u64) -> io::Result<Option<bytes::Bytes>> {
        within(&self.tasks, self.patience.piece, rest.some(most)).await.ok_or_else(late)?
    }

    /// Appends so many bytes of what comes to a file.
    ///
    /// # Errors
    /// Those of [`Self::piece`], an end before these bytes, or the file's.
    pub(crate) async fn append(&self, rest: &mut Rest, bytes: u64, file: &Arc<dyn File>) -> io::Result<()> {
        let mut left = bytes;
        while left > 0 {
            let piece = self.piece(rest, left).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
            left -= piece.len() as u64;
            let file = Arc::clone(file);
            self.away(move || file.append(&[&piece])).await?;
        }
        Ok(())
    }
}

/// Nothing came for too long.
pub(crate) fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "nothing came for too long")
}
