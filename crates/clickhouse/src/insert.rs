//! Inserts queue segments: each in [pieces](crate::pieces), several at a time.

use std::collections::VecDeque;
use std::time::Duration;

use bucksaw_ingest::SegmentView;
use bucksaw_store::StoreError;

use crate::client::DatabaseReply;
use crate::database::Database;
use crate::error::ClickHouseError;
use crate::pieces::{self, SegmentPiece};
use crate::table::insert_into;

/// How long an insert may take. ClickHouse writes and syncs its rows, and merges under load.
pub(crate) const INSERT_TIMEOUT: Duration = Duration::from_secs(120);

/// Inserts the records of queue segments.
pub(crate) struct Inserter<'a> {
    database: &'a Database,
    sql: String,
    running: VecDeque<DatabaseReply>,
}

impl<'a> Inserter<'a> {
    pub(crate) fn new(database: &'a Database) -> Self {
        Self { database, sql: insert_into(&database.config().url), running: VecDeque::new() }
    }

    /// Inserts the records of a segment. [`Self::finish`] waits for the last of them.
    pub(crate) fn add_segment(&mut self, view: &SegmentView) -> Result<(), StoreError> {
        let bytes_max = self.database.config().insert_bytes;
        pieces::cut(view, bytes_max, &mut |piece| self.start(piece))
    }

    /// Starts the insert of a piece, after the oldest one has ended if all connections are in use.
    fn start(&mut self, piece: SegmentPiece) -> Result<(), StoreError> {
        if self.running.len() >= self.database.config().url.connections {
            self.finish_oldest()?;
        }
        self.database.metrics().count_insert(piece.records, piece.rows.len());
        let insert = pieces::insert(&self.sql, &piece.token).with_data(piece.rows);
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
