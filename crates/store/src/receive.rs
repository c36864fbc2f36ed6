//! Receiving a segment that another store made: it is checked, made durable and shown before the other hears that it is
//! kept.
//!
//! ```text
//!   store                                    store
//!     ── store/put {id, bytes}, the file ──►   <new id>.tmp ── checked, synced ──► <span>-<id>.seg, synced, shown
//!     ◄────────────── {} ───────────────────
//! ```
//! The copy has the id of the first, and nothing else links the two: each store merges and lets go of its own.
//! A segment that is there already is kept once, so whoever got no answer may send it again.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bucksaw_doors::{Body, File};
use bucksaw_ingest::handover::{Rest, message, read_head};
use bucksaw_record::Id;
use bucksaw_segment::shelf::Reader;
use serde::{Deserialize, Serialize};
use tracing::debug;

use crate::linked::Linked;
use crate::name;
use crate::shelf::{Shelf, StoreError, lock};
use crate::stored::Stored;

/// The call that brings a segment.
pub const PUT: &str = "store/put";

/// What is brought. The file follows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Put {
    /// The segment.
    pub(crate) id: Id,
    /// Bytes of its file.
    pub(crate) bytes: u64,
}

/// Answers the calls of other stores.
#[derive(Clone, Debug)]
pub struct Receive(Linked);

/// A file that was begun; it goes when this is dropped before it has its name.
struct Incoming {
    shelf: Arc<Shelf>,
    id: Id,
    path: PathBuf,
    file: Arc<dyn File>,
    named: bool,
}

impl Drop for Incoming {
    fn drop(&mut self) {
        lock(&self.shelf.receiving).remove(&self.id);
        if !self.named {
            self.shelf.discard(&self.path);
        }
    }
}

impl Receive {
    /// Receives for a store.
    #[must_use]
    pub fn new(linked: Linked) -> Self {
        Self(linked)
    }

    /// Answers [`PUT`]: an answer without an error says that the segment is durable here.
    ///
    /// # Errors
    /// Why it is not kept.
    pub async fn put(&self, body: Body) -> io::Result<Body> {
        let (put, rest): (Put, Rest) = read_head(body).await?;
        if !self.0.shelf.has(put.id) {
            self.keep(put, rest).await?;
        }
        message(&serde_json::json!({}))
    }

    async fn keep(&self, put: Put, mut rest: Rest) -> io::Result<()> {
        let shelf = Arc::clone(&self.0.shelf);
        let mut incoming = self.0.away(move || shelf.begin_incoming(put)).await?;
        self.0.append(&mut rest, put.bytes, &incoming.file).await?;
        // The sender says that this is all: what was cut off is not taken for whole.
        if self.0.piece(&mut rest, 1).await?.is_some() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "more came than was told"));
        }
        self.0.away(move || incoming.finish().map_err(io::Error::other)).await
    }
}

impl Shelf {
    /// Whether a segment is here.
    #[must_use]
    pub fn has(&self, id: Id) -> bool {
        self.segments().iter().any(|segment| segment.id() == id)
    }

    fn begin_incoming(self: &Arc<Self>, put: Put) -> io::Result<Incoming> {
        let space = self.doors.fs.space(&self.dir)?;
        if self.is_crowded() {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "there is no file descriptor for it"));
        }
        if self.index.is_full() {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                "there is no memory for the index of more segments",
            ));
        }
        if put.bytes.saturating_add(self.config.free_bytes_min) > space.free_bytes {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "there is no room for it"));
        }
        if !lock(&self.receiving).insert(put.id) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "it is being received already"));
        }
        let path = self.dir.join(format!("{}.tmp", self.new_id()));
        match self.doors.fs.create(&path) {
            Ok(file) => Ok(Incoming { shelf: Arc::clone(self), id: put.id, path, file, named: false }),
            Err(error) => {
                lock(&self.receiving).remove(&put.id);
                Err(error)
            }
        }
    }
}

impl Incoming {
    /// Checks the file, makes it durable and shows it.
    fn finish(&mut self) -> Result<(), StoreError> {
        let sealed = self.check()?;
        let shelf = &self.shelf;
        self.file.sync().map_err(StoreError::io("sync", &self.path))?;
        shelf.doors.fs.rename(&self.path, &sealed).map_err(StoreError::io("rename", &self.path))?;
        self.named = true;
        let stored = shelf.settle(&[sealed])?;
        shelf.metrics.received_bytes.inc_by(stored.iter().map(|stored| stored.file_bytes()).sum());
        shelf.replace(&stored, &[]);
        debug!(segment = %self.id, "keeps a copy of another store's segment");
        Ok(())
    }

    /// Every checksum of the file fits; gives its name.
    fn check(&self) -> Result<PathBuf, StoreError> {
        let reader = Reader::open(Arc::clone(&self.file), &self.path).map_err(StoreError::Written)?;
        let stored = Stored::new(reader);
        for block in 0..stored.footer().blocks.len() {
            stored.reader().packed_block(block).map_err(StoreError::Written)?;
        }
        if stored.id() != self.id || stored.reach().is_empty() {
            return Err(StoreError::Foreign { segment: self.id });
        }
        let reach = stored.reach();
        Ok(self.shelf.dir.join(name::of(reach.low.at(), reach.high.at(), self.id, "seg")))
    }
}
