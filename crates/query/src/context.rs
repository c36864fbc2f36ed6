//! The records around one, in its stream.

use std::ops::ControlFlow;
use std::sync::Arc;

use bucksaw_record::{Expr, Id, Labels};

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
    let mut stats = Stats::default();
    let cancel = &engine.limited(cancel);
    let mut ask = |request| -> Result<Vec<Record>, RequestError> {
        let mut search = engine.search(request, cancel.clone())?;
        let mut side = Side::default();
        let mut keep = |record: RecordRef<'_>| {
            side.keep(record);
            ControlFlow::Continue(())
        };
        while search.show_batch(&mut keep) > 0 {}
        if search.is_cancelled() {
            return Err(RequestError::Cancelled);
        }
        stats.add(search.stats());
        stats.matched += side.records.len() as u64;
        Ok(side.records)
    };
    let found = ask(one(id))?;
    let Some(record) = found.into_iter().next() else {
        return Err(match stats.timed_out {
            Some(_) => RequestError::NotAllAnswered(id, stats.partial_reasons().join("; ")),
            None => RequestError::NoRecord(id),
        });
    };
    let stream = record.labels.clone();
    let mut records = match before {
        0 => Vec::new(),
        before => ask(older(id, &stream, before))?,
    };
    records.reverse();
    records.push(record);
    if after > 0 {
        records.extend(ask(newer(id, &stream, after))?);
    }
    Ok((records, stats))
}

/// Records on one side of another, and not too many bytes of them.
#[derive(Default)]
pub(crate) struct Side {
    pub(crate) records: Vec<Record>,
    bytes: usize,
}

impl Side {
    pub(crate) fn keep(&mut self, record: RecordRef<'_>) {
        if !self.is_full() {
            self.bytes += record.text.len();
            self.records.push(record.to_record());
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= SIDE_BYTES_MAX
    }
}

/// The question for a record.
pub(crate) fn one(id: Id) -> Request {
    ask(id, behind(id), None, Order::Ascending, 1)
}

/// The question for those before it in its stream.
pub(crate) fn older(id: Id, stream: &Labels, limit: u64) -> Request {
    ask(Id::MIN, id, Some(stream), Order::Descending, limit)
}

/// The question for those behind it.
pub(crate) fn newer(id: Id, stream: &Labels, limit: u64) -> Request {
    ask(behind(id), Id::MAX, Some(stream), Order::Ascending, limit)
}

fn behind(id: Id) -> Id {
    Id::from_bits(id.bits().saturating_add(1))
}

fn ask(from: Id, to: Id, stream: Option<&Labels>, order: Order, limit: u64) -> Request {
    Request { expr: Expr::All, from, to, stream: stream.cloned(), order, limit: Some(limit) }
}
