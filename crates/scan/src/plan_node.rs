//! The tree of a plan: a compiled and simplified expression.

use std::sync::Arc;

use bucksaw_record::expr::{LineTest, Literal, Test};
use bucksaw_record::{Expr, Labels};
use bucksaw_search::CancelPoll;

use crate::CompileError;
use crate::field_term::FieldTerm;
use crate::level_term::{CompiledLevel, LevelTerm};
use crate::line_term::LineTerm;
use crate::regex_term::{CompiledPattern, RegexTerm, compile_for_records};
use crate::text_term::TextTerm;

/// The memory limit of all compiled regexes of an expression, in bytes, without the caches of each thread.
pub(crate) const REGEXES_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A node of a plan. Cheap to clone except for its branches.
///
/// Invariant: Invariants: `All` and `Nothing` are only roots. `And` has no member `And`, `Or` no `Or`, `Not` no `Not`.
/// `And` and `Or` have at least two members.
#[derive(Clone, Debug)]
pub(crate) enum PlanNode {
    All,
    Nothing,
    Text(Arc<TextTerm>),
    Regex(Arc<RegexTerm>),
    Field(Arc<FieldTerm>),
    Level(Arc<LevelTerm>),
    Line(LineTerm),
    And(Vec<Self>),
    Or(Vec<Self>),
    Not(Box<Self>),
}

impl PlanNode {
    /// Compiles an expression.
    pub(crate) fn compile(expr: &Expr) -> Result<Self, CompileError> {
        Self::compile_within(expr, &mut CompiledRegexes { room: REGEXES_BYTES_MAX, count: 0 })
    }

    fn compile_within(expr: &Expr, regexes: &mut CompiledRegexes) -> Result<Self, CompileError> {
        let node = match expr {
            Expr::All => Self::All,
            Expr::Literal(text) => Self::literal(text)?,
            Expr::Regex(pattern) => match regexes.number(compile_for_records(pattern))? {
                CompiledPattern::Text(bytes) => Self::text(&bytes),
                CompiledPattern::Regex(regex) => Self::Regex(Arc::from(regex)),
            },
            Expr::Field(field) => {
                let is_regex = matches!(field.test, Test::Match(_) | Test::NotMatch(_));
                let compiled = FieldTerm::compile(field);
                let (field, negated) = if is_regex { regexes.number(compiled)? } else { compiled? };
                let node = Self::Field(field.into());
                if negated { node.negate() } else { node }
            }
            Expr::Level(test) => {
                return Ok(match CompiledLevel::of(*test)? {
                    CompiledLevel::Constant(true) => Self::All,
                    CompiledLevel::Constant(false) => Self::Nothing,
                    CompiledLevel::Term { term, negated: false } => Self::Level(term),
                    CompiledLevel::Term { term, negated: true } => Self::Level(term).negate(),
                });
            }
            Expr::Line(test) => {
                let (node, negated) = match test {
                    LineTest::Contains(text) => (Self::literal(text)?, false),
                    LineTest::NotContains(text) => (Self::literal(text)?, true),
                    LineTest::Match(pattern) | LineTest::NotMatch(pattern) => {
                        let node = match regexes.number(compile_for_records(pattern))? {
                            CompiledPattern::Text(bytes) => Self::text(&bytes),
                            CompiledPattern::Regex(regex) => Self::Regex(Arc::from(regex)),
                        };
                        (node, matches!(test, LineTest::NotMatch(_)))
                    }
                };
                let node = match node {
                    Self::Text(text) => Self::Line(LineTerm::Text(text)),
                    Self::Regex(regex) => Self::Line(LineTerm::Regex(regex)),
                    all => all,
                };
                if negated { node.negate() } else { node }
            }
            Expr::And(members) => return Ok(Self::and(Self::compile_list(members, regexes)?)),
            Expr::Or(members) => return Ok(Self::or(Self::compile_list(members, regexes)?)),
            Expr::Not(inner) => return Ok(Self::compile_within(inner, regexes)?.negate()),
        };
        let left = regexes.room.checked_sub(node.term_regex_bytes());
        regexes.room = left.ok_or(CompileError::TooManyRegexes { limit: REGEXES_BYTES_MAX })?;
        Ok(node)
    }

    fn compile_list(members: &[Expr], regexes: &mut CompiledRegexes) -> Result<Vec<Self>, CompileError> {
        members.iter().map(|member| Self::compile_within(member, regexes)).collect()
    }

    /// The node for records of one stream: fields that are labels are resolved.
    pub(crate) fn bind(&self, labels: &Labels) -> Self {
        match self {
            Self::Field(field) => match labels.get(&field.name) {
                Some(value) if field.value_matches(value.as_bytes(), &CancelPoll::never()) => Self::All,
                Some(_) => Self::Nothing,
                None => self.clone(),
            },
            Self::Level(level) => match level.label_answer(labels) {
                Some(true) => Self::All,
                Some(false) => Self::Nothing,
                None => self.clone(),
            },
            Self::And(members) => Self::and(members.iter().map(|member| member.bind(labels)).collect()),
            Self::Or(members) => Self::or(members.iter().map(|member| member.bind(labels)).collect()),
            Self::Not(inner) => inner.bind(labels).negate(),
            Self::All | Self::Nothing | Self::Text(_) | Self::Regex(_) | Self::Line(_) => self.clone(),
        }
    }

    /// Whether both nodes consist of the same terms of one expression, so that they match the same records.
    pub(crate) fn is_equivalent(&self, other: &Self) -> bool {
        let all = |mine: &[Self], others: &[Self]| {
            mine.len() == others.len() && mine.iter().zip(others).all(|(mine, other)| mine.is_equivalent(other))
        };
        match (self, other) {
            (Self::All, Self::All) | (Self::Nothing, Self::Nothing) => true,
            (Self::Text(mine), Self::Text(other)) => Arc::ptr_eq(mine, other),
            (Self::Regex(mine), Self::Regex(other)) => Arc::ptr_eq(mine, other),
            (Self::Field(mine), Self::Field(other)) => Arc::ptr_eq(mine, other),
            (Self::Level(mine), Self::Level(other)) => Arc::ptr_eq(mine, other),
            (Self::Line(mine), Self::Line(other)) => mine.is_equivalent(other),
            (Self::And(mine), Self::And(others)) | (Self::Or(mine), Self::Or(others)) => all(mine, others),
            (Self::Not(mine), Self::Not(other)) => mine.is_equivalent(other),
            _ => false,
        }
    }

    /// The memory of the regex of a term, in bytes; a term has one regex at most.
    fn term_regex_bytes(&self) -> usize {
        match self {
            Self::Regex(regex) | Self::Line(LineTerm::Regex(regex)) => regex.memory(),
            Self::Field(field) => field.memory(),
            Self::Not(inner) => inner.term_regex_bytes(),
            _ => 0,
        }
    }

    /// The text to search between two polls of a [`CancelPoll`], in bytes.
    pub(crate) fn slice_bytes(&self) -> usize {
        match self {
            Self::Regex(regex) | Self::Line(LineTerm::Regex(regex)) => regex.slice_bytes(),
            Self::Field(field) => field.slice_bytes(),
            Self::Level(level) => level.prefilter.slice_bytes(),
            Self::And(members) | Self::Or(members) => members.iter().map(Self::slice_bytes).min().unwrap_or(usize::MAX),
            Self::Not(inner) => inner.slice_bytes(),
            Self::All | Self::Nothing | Self::Text(_) | Self::Line(LineTerm::Text(_)) => usize::MAX,
        }
    }

    /// The estimated cost over many records: low for terms that are rare and found fast.
    pub(crate) fn cost(&self) -> usize {
        match self {
            // A longer needle is rarer.
            Self::Text(text) | Self::Line(LineTerm::Text(text)) => 1_000 - text.len().min(900),
            Self::Regex(_) | Self::Line(LineTerm::Regex(_)) => 1_000,
            Self::Field(field) if field.has_value_needle => 2_000,
            // Each candidate is examined, so the other terms exclude records first.
            Self::Level(_) => 2_500,
            Self::Field(_) => 3_000,
            Self::And(members) => members.iter().map(Self::cost).min().unwrap_or_default(),
            Self::Or(members) => members.iter().map(Self::cost).max().unwrap_or_default() + members.len(),
            Self::Not(inner) => 4_000 + inner.cost(),
            Self::All | Self::Nothing => 0,
        }
    }

    /// The estimated work of a search of text, per byte: see [`SearchCosts`](crate::SearchCosts).
    pub(crate) fn text_weight(&self) -> u64 {
        match self {
            Self::All | Self::Nothing => 0,
            Self::Text(_) | Self::Line(LineTerm::Text(_)) => 1,
            Self::Regex(regex) | Self::Line(LineTerm::Regex(regex)) => regex.text_weight(),
            // The name or value, and an escape. A name is often in every record, which is read then.
            Self::Field(field) => {
                if field.has_value_needle {
                    2
                } else {
                    5
                }
            }
            Self::Level(level) => level.prefilter.text_weight(),
            // The rarest member leads, and the others are tested where it matches.
            Self::And(members) => members.iter().min_by_key(|member| member.cost()).map_or(0, Self::text_weight),
            Self::Or(members) => members.iter().map(Self::text_weight).sum(),
            Self::Not(inner) => inner.text_weight(),
        }
    }

    fn literal(text: &Literal) -> Result<Self, CompileError> {
        let has_letter = text.bytes.iter().any(u8::is_ascii_alphabetic);
        Ok(match text.case_insensitive && has_letter {
            true => Self::Regex(RegexTerm::any_case(&text.bytes)?.into()),
            false => Self::text(&text.bytes),
        })
    }

    fn text(bytes: &[u8]) -> Self {
        if bytes.is_empty() { Self::All } else { Self::Text(TextTerm::new(bytes).into()) }
    }

    fn and(members: Vec<Self>) -> Self {
        let mut kept = Vec::with_capacity(members.len());
        for member in members {
            match member {
                Self::All => {}
                Self::Nothing => return Self::Nothing,
                Self::And(inner) => kept.extend(inner),
                other => kept.push(other),
            }
        }
        if kept.len() > 1 { Self::And(kept) } else { kept.pop().unwrap_or(Self::All) }
    }

    fn or(members: Vec<Self>) -> Self {
        let mut kept = Vec::with_capacity(members.len());
        for member in members {
            match member {
                Self::All => return Self::All,
                Self::Nothing => {}
                Self::Or(inner) => kept.extend(inner),
                other => kept.push(other),
            }
        }
        if kept.len() > 1 { Self::Or(kept) } else { kept.pop().unwrap_or(Self::Nothing) }
    }

    fn negate(self) -> Self {
        match self {
            Self::All => Self::Nothing,
            Self::Nothing => Self::All,
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }
}

/// The regexes that were compiled so far.
struct CompiledRegexes {
    /// The memory left, in bytes.
    room: usize,
    count: usize,
}

impl CompiledRegexes {
    /// Counts one more regex, and names its number in the error.
    fn number<T>(&mut self, compiled: Result<T, CompileError>) -> Result<T, CompileError> {
        let number = self.count;
        self.count += 1;
        compiled.map_err(|error| error.of_regex(number))
    }
}
