//! Fields of an expression that no record has, with the nearest existing name. They cause many empty answers.
//!
//! Only the newest records of the time range are examined: to examine all would be a full search.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use bucksaw_record::{AttributeNames, Expr};
use bucksaw_scan::fields;

use crate::match_buffer::RecordRef;
use crate::record_stream::RecordSink;
use crate::request::{Order, Request};

/// Records that are examined.
pub(crate) const RECORDS_EXAMINED_MAX: u64 = 1_000;

/// Fields of an expression that are looked for.
const FIELDS_MAX: usize = 10;

/// Names that are kept, and their bytes.
const NAMES_MAX: usize = 2_000;
const NAME_BYTES_MAX: usize = 128;

/// Fields that are read of one record.
const RECORD_FIELDS_MAX: usize = 200;

/// A field that none of the examined records has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// Its name in the expression.
    pub name: String,
    /// The nearest name that exists, if one is near.
    pub nearest: Option<String>,
    /// How many records were examined.
    pub records_examined: u64,
}

/// The request for the records that are examined: the newest of the time range, whether they match or not. `None` if the
/// expression has no field.
pub(crate) fn sample_request(request: &Request) -> Option<Request> {
    let limit = Some(RECORDS_EXAMINED_MAX);
    let sample = Request { expr: Expr::All, order: Order::Descending, limit, ..request.clone() };
    (!request.expr.field_names().is_empty()).then_some(sample)
}

/// Looks for the fields of an expression in records.
pub(crate) struct FieldFinder<P> {
    /// Not found so far.
    missing: BTreeSet<String>,
    known: BTreeSet<String>,
    records: u64,
    /// Held until the work ends.
    _permit: P,
}

impl<P> FieldFinder<P> {
    pub(crate) fn new(expr: &Expr, permit: P) -> Self {
        let missing = expr.field_names().into_iter().take(FIELDS_MAX).map(str::to_owned).collect();
        Self { missing, known: BTreeSet::new(), records: 0, _permit: permit }
    }

    /// The fields that were not found; none if no record was examined.
    pub(crate) fn finish(self) -> Vec<UnknownField> {
        let Self { missing, known, records, .. } = self;
        let missing = missing.into_iter().filter(|_| records > 0);
        missing.map(|name| UnknownField { nearest: nearest(&name, &known), name, records_examined: records }).collect()
    }

    fn add_name(&mut self, name: &str) {
        if name.len() <= NAME_BYTES_MAX && self.known.len() < NAMES_MAX && !self.known.contains(name) {
            self.known.insert(name.to_owned());
        }
    }
}

impl<P: Send + 'static> RecordSink for FieldFinder<P> {
    fn push(&mut self, record: RecordRef<'_>) -> ControlFlow<()> {
        self.records += 1;
        self.missing
            .retain(|name| record.labels.get(name).is_none() && fields::lookup_record(record.view, name).is_none());
        if self.missing.is_empty() {
            return ControlFlow::Break(());
        }
        record.labels.iter().for_each(|(name, _)| self.add_name(name));
        record.view.names().into_iter().flat_map(AttributeNames::iter).for_each(|name| self.add_name(name));
        fields::visit_named(record.view.line(), RECORD_FIELDS_MAX, &mut |name, _| self.add_name(name));
        ControlFlow::Continue(())
    }

    fn is_full(&self) -> bool {
        self.missing.is_empty()
    }
}

/// The nearest name: the same but for the case of letters, the last part of a nested name, or up to a third of the letters
/// mistyped.
fn nearest(name: &str, known: &BTreeSet<String>) -> Option<String> {
    let (lower, length) = (name.to_lowercase(), name.chars().count());
    let distance = |other: &String| {
        let plain = other.to_lowercase();
        let is_part = plain.strip_suffix(&lower).is_some_and(|rest| rest.ends_with('.'));
        let typed = strsim::damerau_levenshtein(&lower, &plain);
        let is_near = typed <= (length / 3).clamp(1, 3) && typed < length;
        if is_near { Some(typed) } else { is_part.then_some(1) }
    };
    let candidates = known.iter().filter_map(|other| Some((distance(other)?, other)));
    candidates.min().map(|(_, other)| other.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found() {
        let known = ["status", "state", "user.id", "Level", "trace_id", "a"].map(str::to_owned).into();
        let check = |name: &str, want: Option<&str>| assert_eq!(nearest(name, &known).as_deref(), want, "{name}");
        check("statsu", Some("status"));
        check("stauts_", Some("status"));
        check("STATUS", Some("status"));
        check("level", Some("Level"));
        check("id", Some("user.id"));
        check("userid", Some("user.id"));
        check("traceid", Some("trace_id"));
        check("b", None);
        check("colour", None);
    }
}
