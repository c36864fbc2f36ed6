//! `query -A`, `-B`, `-C`: matches with the records around them in their streams.
//!
//! The records around a match come from `/api/v1/context`, one call per match. Several calls run at a time, because
//! each mostly waits for its connection and for the search. A group holds records of one stream. Matches that follow
//! each other in one stream and whose contexts touch share a group, as in grep, and groups are separated by `--`. No
//! record is printed twice: a group omits records of its stream that an earlier group has printed.
//!
//! With `--newest-first` each match is a group of its own, oldest record first within it, because joined groups would not
//! be newest first.

use std::collections::{BTreeMap, VecDeque};

use anyhow::bail;
use bucksaw_record::Id;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;

use super::query_run::QueryRun;
use crate::answer::{AnswerItem, AnswerStats, NodeRecord, RecordContext};
use crate::exit::Exit;
use crate::notice;
use crate::print::RecordPrinter;

/// Limit of the streams whose last printed record is held in memory.
const STREAMS_MAX: usize = 100_000;

/// Calls that run at a time. The node runs twice as many queries at a time, also of other clients.
const CALLS_MAX: usize = 8;

pub(super) async fn run(search: &QueryRun<'_>, (before, after): (u64, u64)) -> anyhow::Result<Exit> {
    let mut groups = Groups::new(search.printer()?, search.args.newest_first);
    let mut partial_context: Option<AnswerStats> = None;
    let mut reader = search.open("json", search.args.max_count).await?;
    // In the order of their matches.
    let mut contexts = FuturesOrdered::new();
    let (mut has_ended, mut found) = (false, None);
    loop {
        let item = tokio::select! {
            biased;
            Some(context) = contexts.next() => {
                let (match_object, context): (MatchObject, RecordContext) = context?;
                groups.push(match_object.id, &match_object.object, context.records, before)?;
                if context.stats.is_partial() {
                    partial_context.get_or_insert(context.stats);
                }
                continue;
            }
            item = reader.next(|| groups.printer.flush()), if !has_ended && contexts.len() < CALLS_MAX => item?,
            else => break,
        };
        match item {
            Some(AnswerItem::Object(object)) => {
                let id = NodeRecord::parse(&object)?.id()?;
                contexts.push_back(async move {
                    // One record more before it shows whether two contexts touch.
                    let context = RecordContext::fetch(&search.client, &id.to_string(), before + 1, after).await?;
                    anyhow::Ok((MatchObject { id, object }, context))
                });
            }
            Some(AnswerItem::Raw(_)) => {}
            Some(AnswerItem::Notice(notice)) => notice::print(&notice),
            Some(AnswerItem::Stats(stats)) => (has_ended, found) = (true, Some(stats)),
            None => has_ended = true,
        }
    }
    groups.end()?;
    let Some(stats) = found else {
        groups.printer.flush()?;
        return Err(search.ended_early());
    };
    groups.printer.finish()?;
    let any = groups.printer.printed;
    // A context looks at other times than the search.
    let context = partial_context.filter(|_| !stats.is_partial());
    let exit = search.settle(&stats, any);
    Ok(context.map_or(exit, |context| search.settle(&context, any)))
}

/// A match whose context is being fetched.
struct MatchObject {
    id: Id,
    object: Bytes,
}

/// A record of a group.
#[derive(Debug)]
struct GroupRecord {
    id: Id,
    object: Bytes,
    is_match: bool,
}

/// Prints groups in the order of their matches.
struct Groups<W: std::io::Write = std::fs::File> {
    printer: RecordPrinter<W>,
    newest_first: bool,
    /// The stream of the current group.
    stream: String,
    /// The last record of the current group, printed or not.
    last: Option<Id>,
    /// Records behind the last match of the group. A later match may be among them.
    pending: VecDeque<GroupRecord>,
    /// By stream, the last printed record: the highest id, or the lowest with `newest_first`.
    printed: BTreeMap<String, Id>,
    /// Whether a group was printed, so that the next one needs a separator.
    any: bool,
}

impl<W: std::io::Write> Groups<W> {
    fn new(printer: RecordPrinter<W>, newest_first: bool) -> Self {
        let (stream, pending, printed) = (String::new(), VecDeque::new(), BTreeMap::new());
        Self { printer, newest_first, stream, last: None, pending, printed, any: false }
    }

    /// Adds a match with the records around it. At most `before` records precede it in the output.
    fn push(&mut self, id: Id, object: &[u8], around: Vec<Bytes>, before: u64) -> anyhow::Result<()> {
        let stream = NodeRecord::parse(object)?.stream();
        let record = |object: Bytes| {
            let record_id = NodeRecord::parse(&object)?.id()?;
            Ok(GroupRecord { id: record_id, object, is_match: record_id == id })
        };
        let mut around = around.into_iter().map(record).collect::<anyhow::Result<VecDeque<_>>>()?;
        let Some(at) = around.iter().position(|record| record.is_match) else {
            bail!("the record {id} has expired since it was found: search a later time range");
        };
        let preceding = if at as u64 > before { around.pop_front().map(|record| record.id) } else { None };
        if self.newest_first {
            let lowest = self.printed.get(&stream).copied();
            around.retain(|record| lowest.is_none_or(|lowest| record.id < lowest));
            self.begin(stream, around)?;
            self.print_through(id)?;
            return self.end();
        }
        let first = around.front().map_or(id, |record| record.id);
        let touches = |last: Id| first <= last || preceding.is_some_and(|preceding| preceding <= last);
        match self.last.filter(|_| self.stream == stream).filter(|last| touches(*last)) {
            Some(last) => {
                for record in self.pending.iter_mut().filter(|record| record.id == id) {
                    record.is_match = true;
                }
                self.pending.extend(around.into_iter().filter(|record| record.id > last));
                self.last = self.pending.back().map(|record| record.id).or(self.last);
            }
            None => {
                self.end()?;
                let highest = self.printed.get(&stream).copied();
                around.retain(|record| highest.is_none_or(|highest| record.id > highest));
                self.begin(stream, around)?;
            }
        }
        self.print_through(id)
    }

    /// Begins a group with these records.
    fn begin(&mut self, stream: String, records: VecDeque<GroupRecord>) -> anyhow::Result<()> {
        if self.any && !records.is_empty() {
            self.printer.separator()?;
        }
        self.any |= !records.is_empty();
        self.stream = stream;
        self.last = records.back().map(|record| record.id).or_else(|| self.printed.get(&self.stream).copied());
        self.pending = records;
        Ok(())
    }

    /// Prints the records of the group up to this match.
    fn print_through(&mut self, id: Id) -> anyhow::Result<()> {
        while self.pending.front().is_some_and(|record| record.id <= id) {
            let Some(record) = self.pending.pop_front() else { break };
            self.print(&record, true)?;
        }
        Ok(())
    }

    /// Prints the remaining records of the group.
    fn end(&mut self) -> anyhow::Result<()> {
        while let Some(record) = self.pending.pop_front() {
            self.print(&record, false)?;
        }
        Ok(())
    }

    fn print(&mut self, record: &GroupRecord, is_before: bool) -> anyhow::Result<()> {
        match record.is_match {
            true => self.printer.matched(&record.object)?,
            false => self.printer.context(&record.object, is_before)?,
        }
        if self.printed.len() == STREAMS_MAX && !self.printed.contains_key(&self.stream) {
            bail!("more than {STREAMS_MAX} streams match: narrow the expression or the time range");
        }
        let newest_first = self.newest_first;
        let bound = self.printed.entry(self.stream.clone()).or_insert(record.id);
        *bound = if newest_first { record.id.min(*bound) } else { record.id.max(*bound) };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
