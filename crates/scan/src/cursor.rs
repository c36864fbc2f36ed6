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

use crate::field::{Ahead, Field};
use crate::node::Node;
use crate::records::Span;
use crate::regex::Regex;
use crate::text::Text;
use crate::watch::Watch;

/// A leap of at least so many bytes is a long one: a few times what it costs to try some records alone.
const LONG_LEAP_BYTES: usize = 1024;

/// A part of an expression on its way through a span. Made fresh for each scan, and [reset](Self::reset) for each span.
#[derive(Debug)]
pub(crate) struct Cursor {
    kind: Kind,
    answer: Answer,
}

#[derive(Debug)]
enum Kind {
    Every,
    Text(Arc<Text>),
    Regex(Arc<Regex>),
    Field(Arc<Field>, Ahead),
    /// The rarest first.
    And(Box<Cursor>, Vec<Cursor>),
    Or(Vec<Cursor>),
    Not(Box<Cursor>),
}

/// What was answered last.
#[derive(Clone, Copy, Debug)]
enum Answer {
    None,
    /// The start of a record.
    At(usize),
    /// There is no more in this span.
    End,
}

impl Cursor {
    /// A cursor for `node`; `None` when nothing can match.
    pub(crate) fn new(node: &Node) -> Option<Self> {
        let kind = match node {
            Node::Nothing => return None,
            Node::All => Kind::Every,
            Node::Text(text) => Kind::Text(Arc::clone(text)),
            Node::Regex(regex) => Kind::Regex(Arc::clone(regex)),
            Node::Field(field) => Kind::Field(Arc::clone(field), Ahead::default()),
            Node::And(members) => {
                let mut members: Vec<&Node> = members.iter().collect();
                members.sort_by_key(|member| member.weight());
                let mut members = members.into_iter().map(Self::new);
                let first = members.next()??;
                Kind::And(Box::new(first), members.collect::<Option<_>>()?)
            }
            Node::Or(members) => Kind::Or(members.iter().filter_map(Self::new).collect()),
            Node::Not(inner) => Self::new(inner).map_or(Kind::Every, |inner| Kind::Not(Box::new(inner))),
        };
        Some(Self { kind, answer: Answer::None })
    }

    /// Forgets what it knows, for another span.
    pub(crate) fn reset(&mut self) {
        self.answer = Answer::None;
        match &mut self.kind {
            Kind::Every | Kind::Text(_) | Kind::Regex(_) => {}
            Kind::Field(_, ahead) => *ahead = Ahead::default(),
            Kind::And(first, others) => {
                first.reset();
                others.iter_mut().for_each(Self::reset);
            }
            Kind::Or(members) => members.iter_mut().for_each(Self::reset),
            Kind::Not(inner) => inner.reset(),
        }
    }

    /// The start of the first matching record at or after `from`, itself the start of a record.
    /// Says nothing when the watch of the span stopped it.
    pub(crate) fn seek(&mut self, span: &Span<'_>, from: usize) -> Option<usize> {
        match self.answer {
            Answer::End => return None,
            Answer::At(at) if at >= from => return Some(at),
            _ => {}
        }
        let found = if from < span.end { self.search(span, from) } else { None };
        self.answer = found.map_or(Answer::End, Answer::At);
        found
    }

    /// The member that this cursor is the negation of.
    pub(crate) fn negated(&mut self) -> Option<&mut Self> {
        if let Kind::Not(inner) = &mut self.kind { Some(inner) } else { None }
    }

    /// Whether a record matches, looked at alone. Says nothing when the watch stopped it.
    pub(crate) fn is_in(&self, record: &[u8], watch: &Watch<'_>) -> bool {
        match &self.kind {
            Kind::Every => true,
            Kind::Text(text) => text.is_in(record),
            Kind::Regex(regex) => regex.is_in(record, watch),
            Kind::Field(field, _) => field.is_in(record, watch),
            Kind::And(first, others) => {
                first.is_in(record, watch) && others.iter().all(|other| other.is_in(record, watch))
            }
            Kind::Or(members) => members.iter().any(|member| member.is_in(record, watch)),
            Kind::Not(inner) => !inner.is_in(record, watch),
        }
    }

    fn search(&mut self, span: &Span<'_>, from: usize) -> Option<usize> {
        match &mut self.kind {
            Kind::Every => Some(from),
            Kind::Text(text) => text.seek(span, from),
            Kind::Regex(regex) => regex.seek(span, from),
            Kind::Field(field, ahead) => field.seek(span, from, ahead),
            Kind::And(first, others) => search_all(first, others, span, from),
            Kind::Or(members) => members.iter_mut().filter_map(|member| member.seek(span, from)).min(),
            Kind::Not(inner) => {
                let mut at = from;
                while at < span.end && !span.watch.is_stopped() {
                    if inner.seek(span, at) != Some(at) {
                        return Some(at);
                    }
                    at = span.records.next(at);
                }
                None
            }
        }
    }

    /// `at` when the record there matches, else a place behind it before which none does; `None` when none does any more.
    /// With `alone` the record is looked at alone rather than the text searched.
    fn try_at(&mut self, span: &Span<'_>, at: usize, alone: bool) -> Option<usize> {
        if !alone || self.knows(at) {
            return self.seek(span, at);
        }
        Some(if self.is_in(span.records.record(at), span.watch) { at } else { span.records.next(at) })
    }

    fn knows(&self, at: usize) -> bool {
        match self.answer {
            Answer::None => false,
            Answer::At(answer) => answer >= at,
            Answer::End => true,
        }
    }

    /// Whether its candidates are so many, and looking at each so slow, that it never leaps for others.
    fn is_slow(&self) -> bool {
        match &self.kind {
            Kind::Field(field, _) => !field.by_value(),
            Kind::Not(inner) => inner.is_slow(),
            Kind::Or(members) => members.iter().any(Self::is_slow),
            _ => false,
        }
    }
}

/// The first record at or after `from` that all match.
fn search_all(first: &mut Cursor, others: &mut [Cursor], span: &Span<'_>, from: usize) -> Option<usize> {
    let mut place = from;
    'candidates: loop {
        if span.watch.is_stopped() {
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
