//! The records around one, in its stream.

use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_record::{Expr, Id};

use crate::engine::Engine;
use crate::hits::{Record, RecordRef};
use crate::request::{Cancel, Order, Request, RequestError};
use crate::stats::Stats;

/// Bytes of text before a record, and behind it, beyond which no more records are added: some may be very long.
const SIDE_BYTES_MAX: usize = 4 << 20;

pub(crate) fn run(
    engine: &Arc<Engine>,
    id: Id,
    before: u64,
    after: u64,
    cancel: &Cancel,
) -> Result<(Vec<Record>, Stats), RequestError> {
    let next = Id::from_bits(id.bits().saturating_add(1));
    let mut stats = Stats::default();
    let all = |from, to, stream, order, limit| Request { expr: Expr::All, from, to, stream, order, limit: Some(limit) };
    let mut ask = |request| -> Result<Vec<Record>, RequestError> {
        let mut search = engine.search(request, cancel.clone())?;
        let mut records: Vec<Record> = Vec::new();
        let mut bytes = 0;
        let mut keep = |record: RecordRef<'_>| {
            if bytes < SIDE_BYTES_MAX {
                bytes += record.text.len();
                records.push(record.to_record());
            }
            ControlFlow::Continue(())
        };
        while search.show_batch(&mut keep) > 0 {}
        if search.is_cancelled() {
            return Err(RequestError::Cancelled);
        }
        let read = search.stats();
        stats.matched += records.len() as u64;
        stats.segments_read += read.segments_read;
        stats.segments_skipped += read.segments_skipped;
        stats.bytes_scanned += read.bytes_scanned;
        stats.bytes_skipped += read.bytes_skipped;
        stats.damaged.extend(read.damaged.iter().cloned());
        Ok(records)
    };
    let found = ask(all(id, next, None, Order::Ascending, 1))?;
    let Some(record) = found.into_iter().next() else { return Err(RequestError::NoRecord(id)) };
    let stream = Some(record.labels.clone());
    let mut records = match before {
        0 => Vec::new(),
        before => ask(all(Id::MIN, id, stream.clone(), Order::Descending, before))?,
    };
    records.reverse();
    records.push(record);
    if after > 0 {
        records.extend(ask(all(next, Id::MAX, stream, Order::Ascending, after))?);
    }
    Ok((records, stats))
}
