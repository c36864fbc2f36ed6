//! Cursors: each part of an expression finds its next matching record, and they leap over each other.
//!
//! A cursor is asked for the first match at or after a place, and the places only rise within a span. It keeps its last
//! answer, so that no text is searched twice: as long as it is asked for places before that answer, the answer stands.
//!
//! - A *leaf* searches the bytes for its next hit and goes back to the start of the record.
//! - `Or` answers the first of its members' answers.
//! - `Not` goes from record to record until its member answers another one.
//! - `And` is driven by the member that is thought to be the rarest. Where that goes in long leaps by itself, the few
//!   records it stops at are tried alone with the others; where it stops often, the others leap too.

use std::sync::Arc;

use crate::cancel_poll::CancelPoll;
use crate::field_term::{CandidatePositions, FieldTerm};
use crate::plan_node::PlanNode;
use crate::record_boundaries::ScanWindow;
use crate::regex_term::RegexTerm;
use crate::text_term::TextTerm;

/// A leap of at least so many bytes is a long one: a few times what it costs to try some records alone.
const LONG_LEAP_BYTES: usize = 1024;

/// A part of an expression on its way through a span. Made fresh for each scan, and [reset](Self::reset) for each span.
#[derive(Debug)]
pub(crate) struct Cursor {
    kind: CursorKind,
    next_match: NextMatch,
}

#[derive(Debug)]
enum CursorKind {
    Every,
    Text(Arc<TextTerm>),
    Regex(Arc<RegexTerm>),
    Field(Arc<FieldTerm>, CandidatePositions),
    /// The rarest first.
    And(Box<Cursor>, Vec<Cursor>),
    Or(Vec<Cursor>),
    Not(Box<Cursor>),
}

/// What was answered last.
#[derive(Clone, Copy, Debug)]
enum NextMatch {
    Unknown,
    /// The start of a record.
    At(usize),
    /// There is no more in this span.
    Exhausted,
}

impl Cursor {
    /// A cursor for `node`; `None` when nothing can match.
    pub(crate) fn new(node: &PlanNode) -> Option<Self> {
        let kind = match node {
            PlanNode::Nothing => return None,
            PlanNode::All => CursorKind::Every,
            PlanNode::Text(text) => CursorKind::Text(Arc::clone(text)),
            PlanNode::Regex(regex) => CursorKind::Regex(Arc::clone(regex)),
            PlanNode::Field(field) => CursorKind::Field(Arc::clone(field), CandidatePositions::default()),
            PlanNode::And(members) => {
                let mut members: Vec<&PlanNode> = members.iter().collect();
                members.sort_by_key(|member| member.cost());
                let mut members = members.into_iter().map(Self::new);
                let first = members.next()??;
                CursorKind::And(Box::new(first), members.collect::<Option<_>>()?)
            }
            PlanNode::Or(members) => CursorKind::Or(members.iter().filter_map(Self::new).collect()),
            PlanNode::Not(inner) => {
                Self::new(inner).map_or(CursorKind::Every, |inner| CursorKind::Not(Box::new(inner)))
            }
        };
        Some(Self { kind, next_match: NextMatch::Unknown })
    }

    /// Forgets what it knows, for another span.
    pub(crate) fn reset(&mut self) {
        self.next_match = NextMatch::Unknown;
        match &mut self.kind {
            CursorKind::Every | CursorKind::Text(_) | CursorKind::Regex(_) => {}
            CursorKind::Field(_, ahead) => *ahead = CandidatePositions::default(),
            CursorKind::And(first, others) => {
                first.reset();
                others.iter_mut().for_each(Self::reset);
            }
            CursorKind::Or(members) => members.iter_mut().for_each(Self::reset),
            CursorKind::Not(inner) => inner.reset(),
        }
    }

    /// The start of the first matching record at or after `from`, itself the start of a record.
    /// Says nothing when the watch of the span stopped it.
    pub(crate) fn seek(&mut self, span: &ScanWindow<'_>, from: usize) -> Option<usize> {
        match self.next_match {
            NextMatch::Exhausted => return None,
            NextMatch::At(at) if at >= from => return Some(at),
            _ => {}
        }
        let found = if from < span.end { self.search(span, from) } else { None };
        self.next_match = found.map_or(NextMatch::Exhausted, NextMatch::At);
        found
    }

    /// The member that this cursor is the negation of.
    pub(crate) fn negated_inner(&mut self) -> Option<&mut Self> {
        if let CursorKind::Not(inner) = &mut self.kind { Some(inner) } else { None }
    }

    /// Whether a record matches, looked at alone. Says nothing when the watch stopped it.
    pub(crate) fn matches_record(&self, record: &[u8], watch: &CancelPoll<'_>) -> bool {
        match &self.kind {
            CursorKind::Every => true,
            CursorKind::Text(text) => text.matches_record(record),
            CursorKind::Regex(regex) => regex.matches_record(record, watch),
            CursorKind::Field(field, _) => field.matches_record(record, watch),
            CursorKind::And(first, others) => {
                first.matches_record(record, watch) && others.iter().all(|other| other.matches_record(record, watch))
            }
            CursorKind::Or(members) => members.iter().any(|member| member.matches_record(record, watch)),
            CursorKind::Not(inner) => !inner.matches_record(record, watch),
        }
    }

    fn search(&mut self, span: &ScanWindow<'_>, from: usize) -> Option<usize> {
        match &mut self.kind {
            CursorKind::Every => Some(from),
            CursorKind::Text(text) => text.seek(span, from),
            CursorKind::Regex(regex) => regex.seek(span, from),
            CursorKind::Field(field, ahead) => field.seek(span, from, ahead),
            CursorKind::And(first, others) => seek_conjunction(first, others, span, from),
            CursorKind::Or(members) => members.iter_mut().filter_map(|member| member.seek(span, from)).min(),
            CursorKind::Not(inner) => {
                let mut at = from;
                while at < span.end && !span.cancel_poll.is_cancelled() {
                    if inner.seek(span, at) != Some(at) {
                        return Some(at);
                    }
                    at = span.records.next_start(at);
                }
                None
            }
        }
    }

    /// `at` when the record there matches, else a place behind it before which none does; `None` when none does any more.
    /// With `alone` the record is looked at alone rather than the text searched.
    fn try_at(&mut self, span: &ScanWindow<'_>, at: usize, alone: bool) -> Option<usize> {
        if !alone || self.has_answer_from(at) {
            return self.seek(span, at);
        }
        Some(if self.matches_record(span.records.record(at), span.cancel_poll) {
            at
        } else {
            span.records.next_start(at)
        })
    }

    fn has_answer_from(&self, at: usize) -> bool {
        match self.next_match {
            NextMatch::Unknown => false,
            NextMatch::At(answer) => answer >= at,
            NextMatch::Exhausted => true,
        }
    }

    /// Whether its candidates are so many, and looking at each so slow, that it never leaps for others.
    fn is_slow(&self) -> bool {
        match &self.kind {
            CursorKind::Field(field, _) => !field.has_value_needle(),
            CursorKind::Not(inner) => inner.is_slow(),
            CursorKind::Or(members) => members.iter().any(Self::is_slow),
            _ => false,
        }
    }
}

/// The first record at or after `from` that all match.
fn seek_conjunction(first: &mut Cursor, others: &mut [Cursor], span: &ScanWindow<'_>, from: usize) -> Option<usize> {
    let mut place = from;
    'candidates: loop {
        if span.cancel_poll.is_cancelled() {
            return None;
        }
        let at = first.seek(span, place)?;
        let long = at - place >= LONG_LEAP_BYTES;
        for other in &mut *others {
            let alone = long || other.is_slow();
            let next = other.try_at(span, at, alone)?;
            if next != at {
                place = next;
                continue 'candidates;
            }
        }
        return Some(at);
    }
}
