//! Receives replicas: a segment of another store is checked, made durable and searchable before the reply.
//!
//! The replica has the id of the original; after that, each store merges and removes its own. A put of a segment that is
//! already stored succeeds, so a sender without a reply may repeat it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bucksaw_env::{Body, lock};
use bucksaw_record::Id;
use bucksaw_rpc::{BodyRemainder, message_body, read_head};
use bucksaw_segment::stored::Reader;
use serde::{Deserialize, Serialize};
use tracing::debug;

use crate::error::StoreError;
use crate::name;
use crate::replication::Replication;
use crate::segment_store::SegmentStore;
use crate::stored_segment::StoredSegment;
use crate::temp_file::TempFile;

/// The call that sends a segment.
pub const PUT: &str = "store/put";

/// The head of a put. The file follows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct PutRequest {
    pub(crate) id: Id,
    pub(crate) bytes: u64,
}

struct IncomingSegment {
    store: Arc<SegmentStore>,
    id: Id,
    temp: TempFile,
}

impl Drop for IncomingSegment {
    fn drop(&mut self) {
        lock(&self.store.receiving).remove(&self.id);
    }
}

impl Replication {
    /// Answers [`PUT`]. On success the segment is durable and searchable here.
    ///
    /// # Errors
    /// Why the segment is not stored.
    pub async fn answer_put(&self, body: Body) -> io::Result<Body> {
        let (put, rest): (PutRequest, BodyRemainder) = read_head(body).await?;
        if !self.store.has(put.id) {
            self.receive(put, rest).await?;
        }
        message_body(&serde_json::json!({}))
    }

    async fn receive(&self, put: PutRequest, mut rest: BodyRemainder) -> io::Result<()> {
        if self.context.is_short_of_descriptors() {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no file descriptor is left for the segment"));
        }
        let store = Arc::clone(&self.store);
        let incoming = self.context.run_blocking(move || store.begin_incoming(put)).await?;
        self.context.append_to_file(&mut rest, put.bytes, &incoming.temp.file).await?;
        // The body must end here: a truncated body is an error.
        if self.context.read_chunk(&mut rest, 1).await?.is_some() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the body is longer than stated"));
        }
        self.context.run_blocking(move || incoming.finish().map_err(io::Error::other)).await
    }
}

impl SegmentStore {
    /// Whether a segment is stored.
    pub fn has(&self, id: Id) -> bool {
        self.segments().iter().any(|segment| segment.id() == id)
    }

    fn begin_incoming(self: &Arc<Self>, put: PutRequest) -> io::Result<IncomingSegment> {
        let space = self.env.fs.space(&self.dir)?;
        if self.index_memory.is_full() {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the index memory is used up"));
        }
        if put.bytes.saturating_add(self.config.free_bytes_min) > space.free_bytes {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "not enough disk space for the segment"));
        }
        if !lock(&self.receiving).insert(put.id) {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the segment is already being received"));
        }
        match TempFile::create(&self.env, &self.dir) {
            Ok(temp) => Ok(IncomingSegment { store: Arc::clone(self), id: put.id, temp }),
            Err(error) => {
                lock(&self.receiving).remove(&put.id);
                Err(error)
            }
        }
    }
}

impl IncomingSegment {
    /// Checks the file, makes it durable and adds it to the store.
    fn finish(&self) -> Result<(), StoreError> {
        let sealed = self.check()?;
        let (store, TempFile { file, path, .. }) = (&self.store, &self.temp);
        file.sync().map_err(StoreError::io("sync", path))?;
        store.env.fs.rename(path, &sealed).map_err(StoreError::io("rename", path))?;
        let stored = store.sync_and_open(&[sealed])?;
        store.metrics.received_bytes.inc_by(stored.iter().map(|stored| stored.file_bytes()).sum());
        store.replace_segments(&stored, &[]);
        debug!(segment = %self.id, "stored a replica");
        Ok(())
    }

    /// Verifies every checksum of the file and returns its final name.
    fn check(&self) -> Result<PathBuf, StoreError> {
        let reader = Reader::open(Arc::clone(&self.temp.file), &self.temp.path).map_err(StoreError::ReadBack)?;
        let stored = StoredSegment::new(reader);
        for block in 0..stored.footer().blocks.len() {
            stored.reader().packed_block(block).map_err(StoreError::ReadBack)?;
        }
        if stored.id() != self.id || stored.reach().is_empty() {
            return Err(StoreError::WrongSegment { segment: self.id });
        }
        let reach = stored.reach();
        Ok(self.store.dir.join(name::file_name(reach.low.time(), reach.high.time(), self.id, "seg")))
    }
}
