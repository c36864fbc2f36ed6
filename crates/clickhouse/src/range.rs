//! Reads a slice of the table for a query.

use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_record::{Id, Labels};
use bucksaw_segment::{Chunk, RecordSummary, Rows};
use bucksaw_store::{RangeColumns, RangeError, RangeRead, RangeStream, RecordRange};

use crate::database::Database;
use crate::error::ClickHouseError;
use crate::filter::SqlFilter;
use crate::row_decoder::{RowBuffer, RowFields};
use crate::row_group::RowsByStream;
use crate::slices::Slice;
use crate::statement::Statement;
use crate::table::{COLUMNS_OF_ID_GROUPS, COLUMNS_OF_IDS, COLUMNS_READ, ID_GROUPS, quoted};

/// Memory of a read: pieces of the answer that wait, a group of rows, and a row that has not arrived as a whole.
const READ_BYTES: u64 = 4 << 20;

/// Bytes of a row. Those of the longest record are fewer, so a longer row is no record.
const ROW_BYTES_MAX: usize = 32 << 20;

/// Rows that ClickHouse reads at once for a query that wants few.
const FEW_ROWS: u64 = 4_096;

/// Runs of ids that are passed on together.
const RUNS_MAX: usize = 4_096;

/// Memory of ClickHouse, in bytes, for the groups of ids of a slice. What needs more is written to its disk.
const GROUPING_BYTES_MAX: u64 = 256 << 20;

/// Streams that are listed of a slice.
const STREAMS_MAX: usize = 100_000;

/// Text of a record besides its line: an estimate of its bytes for statistics.
const RECORD_BYTES: u64 = 200;

/// A slice of the table, with the condition of a query.
#[derive(Debug)]
pub(crate) struct TableRange {
    database: Arc<Database>,
    slice: Slice,
    filter: Arc<SqlFilter>,
    /// The time in milliseconds before which records are past their retention.
    since: Option<u64>,
    summary: RecordSummary,
}

impl TableRange {
    pub(crate) fn new(database: Arc<Database>, slice: Slice, filter: Arc<SqlFilter>, since: Option<u64>) -> Self {
        let last = Id::from_bits(slice.to.bits().saturating_sub(1));
        let summary = RecordSummary::of_range(slice.from, last, slice.rows, slice.rows.saturating_mul(RECORD_BYTES));
        Self { database, slice, filter, since, summary }
    }

    /// A question for `columns` of the rows of these ids; `None` if no row can be among them.
    fn question(&self, columns: &str, (from, to): (Id, Id), end: &str) -> Option<Statement> {
        let (from, to) = (from.max(self.slice.from), to.min(self.slice.to));
        if from >= to {
            return None;
        }
        let SqlFilter { sql, mut parameters } = (*self.filter).clone();
        let table = quoted(&self.database.config().url);
        let mut conditions = Vec::new();
        // A filter leaves room for two numbers, or it has none itself.
        let places = parameters.number(from.bits()).zip(parameters.number(to.bits()));
        let (low, high) = places?;
        conditions.push(format!("id >= {low} AND id < {high}"));
        if let Some(since) = self.since {
            // A number of this program.
            conditions.push(format!(
                "greatest(toDateTime64(time, 3, 'UTC'), accepted) >= fromUnixTimestamp64Milli(toInt64({since}), 'UTC')"
            ));
        }
        if !sql.is_empty() {
            conditions.push(sql);
        }
        let sql = format!("SELECT {columns} FROM {table} WHERE {} {end} FORMAT RowBinary", conditions.join(" AND "));
        Some(Statement::question(sql, parameters))
    }

    fn read_rows(
        &self,
        request: &RangeRead<'_>,
        visit: &mut dyn FnMut(&[Chunk<'_>]) -> ControlFlow<()>,
    ) -> Result<(), ClickHouseError> {
        let has_text = request.columns == RangeColumns::Records;
        let columns = if has_text { COLUMNS_READ } else { COLUMNS_OF_IDS };
        let end = if request.newest_first { "ORDER BY id DESC" } else { "ORDER BY id" };
        let Some(mut question) = self.question(columns, request.ids, end) else { return Ok(()) };
        if request.records_max.is_some_and(|records| records <= FEW_ROWS) {
            question = question.with_setting("max_block_size", FEW_ROWS);
        }
        let mut reply = self.database.start(question)?;
        let (mut buffer, mut group) = (RowBuffer::default(), RowsByStream::default());
        while let Some(piece) = reply.next(request.is_stopped)? {
            let goes_on = buffer.add(&piece, &mut |fields| {
                let is_full = group.add(fields.row(has_text)?);
                Some(!is_full || group.take(&mut *visit).is_continue())
            });
            if !goes_on {
                return Ok(());
            }
            if buffer.len() > ROW_BYTES_MAX {
                return Err(ClickHouseError::Malformed("a row is too long for a record"));
            }
        }
        if !buffer.is_empty() {
            return Err(ClickHouseError::Malformed("a row is cut"));
        }
        if !group.is_empty() && group.take(visit).is_break() {
            return Ok(());
        }
        match group.invalid_rows {
            0 => Ok(()),
            _ => Err(ClickHouseError::Malformed("rows that are no records, because another program changed the table")),
        }
    }

    /// Reads ids alone, as runs.
    fn read_ids(
        &self,
        request: &RangeRead<'_>,
        visit: &mut dyn FnMut(&[Chunk<'_>]) -> ControlFlow<()>,
    ) -> Result<(), ClickHouseError> {
        let end = if request.newest_first { format!("{ID_GROUPS} DESC") } else { ID_GROUPS.to_owned() };
        let Some(question) = self.question(COLUMNS_OF_ID_GROUPS, request.ids, &end) else { return Ok(()) };
        let question = question.with_setting("max_bytes_before_external_group_by", GROUPING_BYTES_MAX);
        let question = question.with_setting("max_bytes_before_external_sort", GROUPING_BYTES_MAX);
        let mut reply = self.database.start(question)?;
        let (mut buffer, mut runs, labels) = (RowBuffer::default(), Vec::new(), Labels::default());
        let mut take = |runs: &mut Vec<(Id, u32)>| {
            // Groups come in the order of the answer, and the ids of a chunk rise.
            runs.sort_unstable_by_key(|(first, _)| *first);
            let mut rows = Rows::default();
            runs.drain(..).for_each(|(first, count)| rows.push_run(first, count));
            visit(&[Chunk { labels: &labels, rows: Arc::new(rows), text: &[] }])
        };
        while let Some(piece) = reply.next(request.is_stopped)? {
            let goes_on = buffer.add(&piece, &mut |fields| {
                runs.extend(fields.id_group()?.runs());
                Some(runs.len() < RUNS_MAX || take(&mut runs).is_continue())
            });
            if !goes_on {
                return Ok(());
            }
            if buffer.len() > ROW_BYTES_MAX {
                return Err(ClickHouseError::Malformed("a list of ids is too long"));
            }
        }
        if !buffer.is_empty() {
            return Err(ClickHouseError::Malformed("a row is cut"));
        }
        if !runs.is_empty() {
            let _ = take(&mut runs);
        }
        Ok(())
    }

    fn list_streams(&self, ids: (Id, Id), is_stopped: &dyn Fn() -> bool) -> Result<Vec<RangeStream>, ClickHouseError> {
        let columns = "labels, count(), sum(length(line) + arraySum(value -> length(value), attribute_values))";
        let end = format!("GROUP BY labels LIMIT {STREAMS_MAX}");
        let Some(question) = self.question(columns, ids, &end) else { return Ok(Vec::new()) };
        let (mut reply, mut bytes, mut streams) = (self.database.start(question)?, Vec::new(), Vec::new());
        while let Some(piece) = reply.next(is_stopped)? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > ROW_BYTES_MAX {
                return Err(ClickHouseError::Malformed("the list of streams is too long"));
            }
        }
        let mut fields = RowFields(&bytes);
        while !fields.0.is_empty() {
            let found = fields.pairs().zip(fields.u64()).zip(fields.u64());
            let ((labels, records), bytes) = found.ok_or(ClickHouseError::Malformed("a row is cut"))?;
            // Rows of another program are reported by searches.
            if let Ok(labels) = Labels::new(labels) {
                streams.push(RangeStream { labels, records, bytes: bytes.saturating_add(records) });
            }
        }
        Ok(streams)
    }

    fn finish<T>(&self, result: Result<T, ClickHouseError>, stopped: T) -> Result<T, RangeError> {
        match result {
            Ok(value) => Ok(value),
            // The query knows that it has stopped.
            Err(ClickHouseError::Stopped) => Ok(stopped),
            Err(error) => Err(self.database.range_error(&error)),
        }
    }
}

impl RecordRange for TableRange {
    fn summary(&self) -> &RecordSummary {
        &self.summary
    }

    fn scan_bytes(&self) -> u64 {
        READ_BYTES
    }

    fn read(
        &self,
        request: &RangeRead<'_>,
        visit: &mut dyn FnMut(&[Chunk<'_>]) -> ControlFlow<()>,
    ) -> Result<(), RangeError> {
        let result = match request.columns {
            RangeColumns::Ids => self.read_ids(request, visit),
            RangeColumns::Records | RangeColumns::IdsAndStreams => self.read_rows(request, visit),
        };
        self.finish(result, ())
    }

    fn streams(&self, ids: (Id, Id), is_stopped: &dyn Fn() -> bool) -> Result<Vec<RangeStream>, RangeError> {
        let result = self.list_streams(ids, is_stopped);
        self.finish(result, Vec::new())
    }
}
