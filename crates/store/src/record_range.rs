//! A range of ids in a database: what one scan job reads of a store that has no blocks.

use std::fmt::Debug;
use std::ops::ControlFlow;

use bucksaw_record::{Id, Labels};
use bucksaw_segment::{Chunk, RecordSummary};

/// A range of ids whose records are read when a scan reaches it.
///
/// The store may leave out records that do not meet the expression of [`BlockSelector`](crate::BlockSelector).
pub trait RecordRange: Debug + Send + Sync {
    /// The range. The numbers of records and bytes are estimates, which no answer contains.
    fn summary(&self) -> &RecordSummary;

    /// Memory, in bytes, that a read takes.
    fn scan_bytes(&self) -> u64;

    /// Passes the records to `visit` in groups of some thousand. Each group has one chunk per stream, and its ids follow
    /// those of the group before in the requested order. No id is passed twice. Ends early when `visit` breaks.
    ///
    /// # Errors
    /// [`RangeError`]; records may be missing.
    fn read(
        &self,
        request: &RangeRead<'_>,
        visit: &mut dyn FnMut(&[Chunk<'_>]) -> ControlFlow<()>,
    ) -> Result<(), RangeError>;

    /// The streams with records in `ids`, of which the second id is exclusive. Records that the database has twice count
    /// twice.
    ///
    /// # Errors
    /// [`RangeError`].
    fn streams(&self, ids: (Id, Id), is_stopped: &dyn Fn() -> bool) -> Result<Vec<RangeStream>, RangeError>;
}

/// What a reader needs of the records of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeColumns {
    /// All of a record.
    Records,
    /// Its id and stream. The chunks have no text.
    IdsAndStreams,
    /// Its id. The chunks have no text and no labels, and may have any number of records.
    Ids,
}

/// What to read of a range.
#[derive(Clone, Copy)]
pub struct RangeRead<'a> {
    /// The lowest id, inclusive, and the highest, exclusive.
    pub ids: (Id, Id),
    /// Whether the highest ids come first.
    pub newest_first: bool,
    /// What the reader needs of a record.
    pub columns: RangeColumns,
    /// How many records the reader wants at most, if it knows. More may come.
    pub records_max: Option<u64>,
    /// Whether to end the read. Polled while it waits.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// A stream of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeStream {
    /// Its labels.
    pub labels: Labels,
    /// Its records.
    pub records: u64,
    /// Bytes of their text.
    pub bytes: u64,
}

/// Why a range could not be read: a sentence that names the database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RangeError(pub String);
