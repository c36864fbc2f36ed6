//! Inserts queue segments: each as pieces of bounded size, several at a time.
//!
//! A piece has the id of its segment, its number and a hash of its rows as token. A segment is always cut at the same
//! records, so a repeated insert has equal tokens, whatever other segments are in its batch. ClickHouse remembers the last
//! tokens and drops such a piece. The hash matters when frames become damaged between two attempts: the pieces then have
//! other rows, of which none must be dropped.

use std::collections::VecDeque;
use std::time::Duration;

use bucksaw_ingest::SegmentView;
use bucksaw_segment::queue::HEADER_LEN;
use bucksaw_store::StoreError;
use twox_hash::XxHash3_64;

use crate::client::DatabaseReply;
use crate::error::ClickHouseError;
use crate::row_encoder::RowEncoder;
use crate::statement::Statement;
use crate::store::Database;
use crate::table::{COLUMNS, quoted};

/// How long an insert may take. ClickHouse writes and syncs its rows, and merges under load.
const INSERT_TIMEOUT: Duration = Duration::from_secs(120);

/// Rows that ClickHouse takes as one block, so that a piece is stored as a whole or not at all.
const BLOCK_ROWS: u64 = 16 << 20;

/// Inserts the records of queue segments.
pub(crate) struct Inserter<'a> {
    database: &'a Database,
    sql: String,
    running: VecDeque<DatabaseReply>,
}

impl<'a> Inserter<'a> {
    pub(crate) fn new(database: &'a Database) -> Self {
        let table = quoted(&database.config().url);
        let sql = format!("INSERT INTO {table} ({COLUMNS}) FORMAT RowBinary");
        Self { database, sql, running: VecDeque::new() }
    }

    /// Inserts the records of a segment. [`Self::finish`] waits for the last of them.
    pub(crate) fn add_segment(&mut self, view: &SegmentView) -> Result<(), StoreError> {
        let input = |source| StoreError::Input { segment: view.id, source };
        let (places, _) = view.frame_positions().map_err(input)?;
        let mut frames = view.frames(HEADER_LEN as u64);
        let (mut encoder, mut piece) = (RowEncoder::default(), 0_u32);
        let bytes_max = self.database.config().insert_bytes;
        for place in places {
            frames.seek(place.offset);
            let Some(chunk) = frames.next_chunk().map_err(input)? else { continue };
            encoder.add(&chunk, bytes_max, &mut |encoder| {
                piece += 1;
                self.start(encoder, view, piece)
            })?;
        }
        if encoder.rows > 0 {
            self.start(&mut encoder, view, piece + 1)?;
        }
        Ok(())
    }

    /// Starts the insert of a piece, after the oldest one has ended if all connections are in use.
    fn start(&mut self, encoder: &mut RowEncoder, view: &SegmentView, piece: u32) -> Result<(), StoreError> {
        if self.running.len() >= self.database.config().url.connections {
            self.finish_oldest()?;
        }
        let metrics = self.database.metrics();
        metrics.inserted_records.inc_by(encoder.rows);
        metrics.inserted_bytes.inc_by(encoder.bytes.len() as u64);
        let rows = encoder.take();
        let hash = XxHash3_64::oneshot(&rows);
        let insert = Statement::new(self.sql.clone())
            .with_setting("insert_deduplication_token", format!("{}-{piece}-{hash:016x}", view.id))
            .with_setting("insert_deduplicate", 1)
            // An insert that only waits in memory would be lost with the server.
            .with_setting("async_insert", 0)
            .with_setting("wait_end_of_query", 1)
            // A table of the engine Distributed passes the rows on before it acknowledges them.
            .with_setting("distributed_foreground_insert", 1)
            .with_setting("max_insert_block_size", BLOCK_ROWS)
            .with_setting("max_partitions_per_insert_block", 0)
            .with_data(rows);
        let reply = self.database.start_within(insert, INSERT_TIMEOUT).map_err(|error| self.failure(&error))?;
        self.running.push_back(reply);
        Ok(())
    }

    fn finish_oldest(&mut self) -> Result<(), StoreError> {
        let Some(oldest) = self.running.pop_front() else { return Ok(()) };
        oldest.finish().map_err(|error| self.failure(&error))?;
        self.database.metrics().inserts.inc();
        Ok(())
    }

    /// Waits until ClickHouse has all pieces.
    pub(crate) fn finish(mut self) -> Result<(), StoreError> {
        while !self.running.is_empty() {
            self.finish_oldest()?;
        }
        Ok(())
    }

    fn failure(&self, error: &ClickHouseError) -> StoreError {
        StoreError::Database(self.database.sentence("cannot store records in", error))
    }
}
