//! Cursors: each node of a plan finds its next matching record and lets others skip ahead.
//!
//! A cursor seeks the first match at or after an offset; the offsets only rise within a window. It remembers its last match, so
//! that no text is searched twice: an offset before that match has the same result.
//!
//! - A *term* searches the bytes for its next occurrence and goes back to the start of the record.
//! - `Or` is at the first of its members' matches.
//! - `Not` steps through the records until its member matches another one.
//! - `And` is driven by the member that is estimated to be the rarest. Where it takes long leaps, the few records at which it
//!   stops are tested alone with the other members. Where it stops often, the other members seek too.

use std::sync::Arc;

use bucksaw_record::RecordView;
use bucksaw_search::CancelPoll;

use crate::field_term::{CandidatePositions, FieldTerm};
use crate::level_term::LevelTerm;
use crate::line_term::LineTerm;
use crate::plan_node::PlanNode;
use crate::record_boundaries::{OCCURRENCE_WORK, ScanWindow};
use crate::regex_term::RegexTerm;
use crate::text_term::TextTerm;

/// The length of a long leap, in bytes: a few times the cost of testing some records alone.
const LONG_LEAP_BYTES: usize = 1024;

/// The position of a node in a window. Created per scan, and [reset](Self::reset) for each window.
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
    Level(Arc<LevelTerm>),
    Line(LineTerm),
    /// The rarest first.
    And(Box<Cursor>, Vec<Cursor>),
    Or(Vec<Cursor>),
    Not(Box<Cursor>),
}

/// The last match.
#[derive(Clone, Copy, Debug)]
enum NextMatch {
    Unknown,
    /// The start of a record.
    At(usize),
    /// The window has no further match.
    Exhausted,
}

impl Cursor {
    /// A cursor for `node`; `None` if nothing can match.
    pub(crate) fn new(node: &PlanNode) -> Option<Self> {
        let kind = match node {
            PlanNode::Nothing => return None,
            PlanNode::All => CursorKind::Every,
            PlanNode::Text(text) => CursorKind::Text(Arc::clone(text)),
            PlanNode::Regex(regex) => CursorKind::Regex(Arc::clone(regex)),
            PlanNode::Field(field) => CursorKind::Field(Arc::clone(field), CandidatePositions::default()),
            PlanNode::Level(level) => CursorKind::Level(Arc::clone(level)),
            PlanNode::Line(line) => CursorKind::Line(line.clone()),
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

    /// Prepares for another window.
    pub(crate) fn reset(&mut self) {
        self.next_match = NextMatch::Unknown;
        match &mut self.kind {
            CursorKind::Every | CursorKind::Text(_) | CursorKind::Regex(_) => {}
            CursorKind::Level(_) | CursorKind::Line(_) => {}
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
    /// Meaningless after a cancellation.
    pub(crate) fn seek(&mut self, window: &ScanWindow<'_>, from: usize) -> Option<usize> {
        match self.next_match {
            NextMatch::Exhausted => return None,
            NextMatch::At(at) if at >= from => return Some(at),
            _ => {}
        }
        let found = if from < window.end { self.search(window, from) } else { None };
        self.next_match = found.map_or(NextMatch::Exhausted, NextMatch::At);
        found
    }

    /// The member of a negation.
    pub(crate) fn negated_inner(&mut self) -> Option<&mut Self> {
        if let CursorKind::Not(inner) = &mut self.kind { Some(inner) } else { None }
    }

    /// Whether a record matches, tested alone. Meaningless after a cancellation.
    pub(crate) fn matches_record(&self, record: RecordView<'_>, cancel_poll: &CancelPoll<'_>) -> bool {
        match &self.kind {
            CursorKind::Every => true,
            CursorKind::Text(text) => text.matches_record(record),
            CursorKind::Regex(regex) => regex.matches_record(record, cancel_poll),
            CursorKind::Field(field, _) => field.matches_record(record, cancel_poll),
            CursorKind::Level(level) => level.matches_record(record),
            CursorKind::Line(line) => line.matches_record(record, cancel_poll),
            CursorKind::And(first, others) => {
                first.matches_record(record, cancel_poll)
                    && others.iter().all(|other| other.matches_record(record, cancel_poll))
            }
            CursorKind::Or(members) => members.iter().any(|member| member.matches_record(record, cancel_poll)),
            CursorKind::Not(inner) => !inner.matches_record(record, cancel_poll),
        }
    }

    fn search(&mut self, window: &ScanWindow<'_>, from: usize) -> Option<usize> {
        match &mut self.kind {
            CursorKind::Every => {
                window.add_work(OCCURRENCE_WORK);
                Some(from)
            }
            CursorKind::Text(text) => text.seek(window, from),
            CursorKind::Regex(regex) => regex.seek(window, from),
            CursorKind::Field(field, ahead) => field.seek(window, from, ahead),
            CursorKind::Level(level) => level.seek(window, from),
            CursorKind::Line(line) => line.seek(window, from),
            CursorKind::And(first, others) => seek_conjunction(first, others, window, from),
            CursorKind::Or(members) => members.iter_mut().filter_map(|member| member.seek(window, from)).min(),
            CursorKind::Not(inner) => {
                let mut at = from;
                while at < window.end && !window.cancel_poll.is_cancelled() {
                    window.add_work(OCCURRENCE_WORK);
                    if inner.seek(window, at) != Some(at) {
                        return Some(at);
                    }
                    at = window.records.next_start(at);
                }
                None
            }
        }
    }

    /// Returns `at` if the record there matches, else a later offset before which no record matches; `None` if no further
    /// record matches. With `alone` it tests only this record, and does not search the text.
    fn try_at(&mut self, window: &ScanWindow<'_>, at: usize, alone: bool) -> Option<usize> {
        if !alone || self.has_answer_from(at) {
            return self.seek(window, at);
        }
        window.add_work(OCCURRENCE_WORK);
        Some(if self.matches_record(window.records.record(at), window.cancel_poll) {
            at
        } else {
            window.records.next_start(at)
        })
    }

    fn has_answer_from(&self, at: usize) -> bool {
        match self.next_match {
            NextMatch::Unknown => false,
            NextMatch::At(answer) => answer >= at,
            NextMatch::Exhausted => true,
        }
    }

    /// Whether it has too many candidates, each slow to test, to seek on behalf of other members.
    fn is_slow(&self) -> bool {
        match &self.kind {
            CursorKind::Field(field, _) => !field.has_value_needle,
            CursorKind::Level(_) => true,
            CursorKind::Not(inner) => inner.is_slow(),
            CursorKind::Or(members) => members.iter().any(Self::is_slow),
            _ => false,
        }
    }
}

/// The first record at or after `from` that matches all members.
fn seek_conjunction(first: &mut Cursor, others: &mut [Cursor], window: &ScanWindow<'_>, from: usize) -> Option<usize> {
    let mut place = from;
    'candidates: loop {
        if window.cancel_poll.is_cancelled() {
            return None;
        }
        let at = first.seek(window, place)?;
        let long = at - place >= LONG_LEAP_BYTES;
        for other in &mut *others {
            let alone = long || other.is_slow();
            let next = other.try_at(window, at, alone)?;
            if next != at {
                place = next;
                continue 'candidates;
            }
        }
        return Some(at);
    }
}
