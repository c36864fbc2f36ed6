//! Checks of answers.
//!
//! A complete answer has every record that was acknowledged before the query. Every answer has each record at most once, and none
//! that was refused. A count lies between the number of required and of possible records.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_query::{Bucket, Order, QueryStats};
use bucksaw_record::{Id, Millis, Producer};

use crate::erased_records::is_erased;
use crate::ledger::{RecordLedger, Violation};
use crate::query_filter::QueryFilter;
use crate::query_kind::QueryKind;

/// The content of an answer.
#[derive(Debug)]
pub(crate) enum AnswerContent {
    Records(Vec<(Id, Arc<str>)>),
    Count(u64),
    /// The nonempty buckets of a histogram.
    Buckets(Vec<Bucket>),
}

impl AnswerContent {
    /// Adds another answer, without a check for equal records.
    pub(crate) fn add(&mut self, other: Self) {
        match (self, other) {
            (Self::Records(all), Self::Records(more)) => all.extend(more),
            (Self::Count(all), Self::Count(more)) => *all += more,
            (Self::Buckets(all), Self::Buckets(more)) => {
                for bucket in more {
                    match all.iter_mut().find(|own| own.from == bucket.from) {
                        Some(own) => own.count += bucket.count,
                        None => all.push(bucket),
                    }
                }
            }
            _ => {}
        }
    }
}

/// An answer with what the checks need.
pub(crate) struct CheckedAnswer {
    pub(crate) machine: usize,
    pub(crate) asked_at: Duration,
    pub(crate) kind: QueryKind,
    /// The records that it must have if it is complete.
    pub(crate) required: BTreeSet<Id>,
    /// Erased records before this time must not be in it.
    pub(crate) erased_before: Option<Millis>,
    /// Asked in a healthy cluster: no node may be missing, and damaged records come from other replicas.
    pub(crate) is_final: bool,
    pub(crate) content: AnswerContent,
    pub(crate) stats: QueryStats,
}

impl CheckedAnswer {
    pub(crate) fn log(&self) {
        let found = match &self.content {
            AnswerContent::Records(found) => found.len() as u64,
            AnswerContent::Count(count) => *count,
            AnswerContent::Buckets(buckets) => buckets.iter().map(|bucket| bucket.count).sum(),
        };
        let (machine, kind, required) = (self.machine, self.kind, self.required.len());
        let (nodes, reasons) = (self.stats.nodes.asked, self.stats.partial_reasons());
        let missing: Vec<String> = self.stats.nodes.missing.iter().map(ToString::to_string).collect();
        tracing::info!(machine, asked_at = ?self.asked_at, ?kind, required, found, nodes, ?missing, ?reasons, "answer");
    }

    /// Whether it claims to be complete.
    pub(crate) fn is_complete(&self) -> bool {
        !self.stats.is_partial()
    }

    /// The violations of the answer.
    pub(crate) fn check(&self, ledger: &RecordLedger) -> Vec<Violation> {
        let none = BTreeSet::new();
        let undamaged = ledger.without_damaged(self.required.clone());
        let required = match (self.is_complete(), self.is_final) {
            (true, _) => &self.required,
            (false, true) => &undamaged,
            (false, false) => &none,
        };
        let mut violations = self.check_against(ledger, required);
        violations.extend(self.erased().map(Violation::Erased));
        if self.is_final && (self.stats.nodes.is_incomplete || !self.stats.nodes.missing.is_empty()) {
            let reasons = self.stats.partial_reasons().join("; ");
            violations.push(Violation::Unanswered(format!("an answer is partial in a healthy cluster: {reasons}")));
        }
        violations
    }

    /// An erased record in the answer.
    fn erased(&self) -> Option<Id> {
        let (Some(before), AnswerContent::Records(found)) = (self.erased_before, &self.content) else { return None };
        found.iter().find(|(id, line)| is_erased(line) && id.time() < before).map(|(id, _)| *id)
    }

    fn check_against(&self, ledger: &RecordLedger, required: &BTreeSet<Id>) -> Vec<Violation> {
        match (&self.content, self.kind) {
            (AnswerContent::Records(found), QueryKind::Records(order, limit, filter)) => {
                let required = ledger.matching(required.clone(), filter);
                let unmatched = found.iter().find(|(_, text)| !filter.matches(text));
                let unmatched = unmatched.map(|(id, _)| Violation::Unmatched(*id));
                unmatched.into_iter().chain(check_records(ledger, &required, found, order, limit)).collect()
            }
            (AnswerContent::Count(count), QueryKind::Count(filter)) => {
                let required = ledger.matching(required.clone(), filter);
                check_counts(ledger, &required, &[bucket(Millis(0), Millis::MAX, *count)], filter)
            }
            (AnswerContent::Buckets(buckets), _) => {
                // Buckets are sorted and do not overlap.
                let counted = |id: &&Id| {
                    let before = buckets.partition_point(|bucket| bucket.to <= id.time());
                    buckets.get(before).is_some_and(|bucket| bucket.from <= id.time())
                };
                let uncounted = ledger.still_required(required.iter().filter(|id| !counted(id)));
                let lost = uncounted.into_iter().map(Violation::Lost);
                check_counts(ledger, required, buckets, QueryFilter::ALL).into_iter().chain(lost).collect()
            }
            (AnswerContent::Records(_) | AnswerContent::Count(_), _) => Vec::new(),
        }
    }
}

/// The lowest id of a millisecond.
fn first_at(at: Millis) -> Id {
    Id::new(at, Producer::new(0), 0)
}

fn bucket(from: Millis, to: Millis, count: u64) -> Bucket {
    Bucket { from, to, count, groups: Vec::new() }
}

fn check_records(
    ledger: &RecordLedger,
    required: &BTreeSet<Id>,
    found: &[(Id, Arc<str>)],
    order: Order,
    limit: Option<u64>,
) -> Vec<Violation> {
    let in_order = |pair: &[(Id, Arc<str>)]| match (pair, order) {
        ([one, next], Order::Ascending) => one.0 <= next.0,
        ([one, next], Order::Descending) => one.0 >= next.0,
        _ => true,
    };
    if let Some([_, (id, _)]) = found.windows(2).find(|pair| !in_order(pair)) {
        return vec![Violation::OutOfOrder(*id)];
    }
    if let Some(limit) = limit.filter(|limit| (found.len() as u64) > *limit) {
        return vec![Violation::Miscounted { count: found.len() as u64, least: 0, most: limit }];
    }
    // An answer that reaches its limit has every record before its last one.
    let last = found.last().filter(|_| limit.is_some_and(|limit| found.len() as u64 >= limit)).map(|(id, _)| *id);
    let required = required.iter().filter(|id| {
        last.is_none_or(|last| match order {
            Order::Ascending => **id <= last,
            Order::Descending => **id >= last,
        })
    });
    let required = required.copied().collect();
    let mut found = found.to_vec();
    found.sort();
    ledger.check(&required, &found)
}

/// Compares counts with the number of required and of possible records.
fn check_counts(
    ledger: &RecordLedger,
    required: &BTreeSet<Id>,
    buckets: &[Bucket],
    filter: QueryFilter,
) -> Vec<Violation> {
    let (required, possible, unnumbered) = (
        ledger.still_required(required.iter()),
        ledger.matching(ledger.allowed(), filter),
        ledger.records_without_known_id_max(),
    );
    let mut violations = Vec::new();
    for bucket in buckets {
        let inside = |ids: &BTreeSet<Id>| ids.range(first_at(bucket.from)..first_at(bucket.to)).count() as u64;
        let (least, most) = (inside(&required), inside(&possible) + unnumbered);
        if !(least..=most).contains(&bucket.count) {
            violations.push(Violation::Miscounted { count: bucket.count, least, most });
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use bucksaw_ingest::Durability;

    use super::*;

    fn id(number: u32) -> Id {
        Id::new(Millis(u64::from(number)), Producer::new(1), number)
    }

    /// Records 1 to 5; the outcome of the last is unknown.
    fn ledger() -> RecordLedger {
        let ledger = RecordLedger::default();
        for number in 1..=5 {
            ledger.record_sent(id(number), format!("text {number}"), Durability::Fast);
            ledger.record_try(&[id(number)]);
        }
        ledger.record_acknowledged(&[id(1), id(2), id(3), id(4)], 0, 0);
        ledger
    }

    fn check(content: AnswerContent, kind: QueryKind, is_partial: bool, want: &[Violation]) {
        let ledger = ledger();
        let mut stats = QueryStats::default();
        stats.nodes.is_incomplete = is_partial;
        let required = ledger.required();
        let answer = CheckedAnswer {
            machine: 0,
            asked_at: Duration::ZERO,
            kind,
            required,
            erased_before: None,
            is_final: false,
            content,
            stats,
        };
        assert_eq!(answer.check(&ledger), want, "{:?}", answer.content);
    }

    #[test]
    fn all_records_up_to_the_limit_are_required() {
        let of = |numbers: &[u32]| {
            AnswerContent::Records(
                numbers.iter().map(|number| (id(*number), format!("text {number}").into())).collect(),
            )
        };
        let all = |order| QueryKind::Records(order, None, QueryFilter::ALL);
        check(of(&[1, 2, 3, 4]), all(Order::Ascending), false, &[]);
        check(of(&[5, 4, 3, 2, 1]), all(Order::Descending), false, &[]);
        check(of(&[1, 2, 4]), all(Order::Ascending), false, &[Violation::Lost(id(3))]);
        check(of(&[1, 2, 4]), all(Order::Ascending), true, &[]);
        check(of(&[1, 2, 2]), all(Order::Ascending), true, &[Violation::Duplicated(id(2))]);
        check(of(&[1, 3, 2, 4]), all(Order::Ascending), false, &[Violation::OutOfOrder(id(2))]);
        let some = |order| QueryKind::Records(order, Some(2), QueryFilter::ALL);
        check(of(&[1, 2]), some(Order::Ascending), false, &[]);
        check(of(&[1, 3]), some(Order::Ascending), false, &[Violation::Lost(id(2))]);
        check(of(&[5, 4]), some(Order::Descending), false, &[]);
        check(of(&[3, 2]), some(Order::Descending), false, &[Violation::Lost(id(4))]);
        check(of(&[4]), some(Order::Descending), false, &[1, 2, 3].map(|number| Violation::Lost(id(number))));
        let beyond = Violation::Miscounted { count: 3, least: 0, most: 2 };
        check(of(&[5, 4, 3]), some(Order::Descending), false, &[beyond]);
    }

    #[test]
    fn counts_lie_between_required_and_possible_records() {
        let off = |count, least| Violation::Miscounted { count, least, most: 5 };
        check(AnswerContent::Count(4), QueryKind::Count(QueryFilter::ALL), false, &[]);
        check(AnswerContent::Count(5), QueryKind::Count(QueryFilter::ALL), false, &[]);
        check(AnswerContent::Count(6), QueryKind::Count(QueryFilter::ALL), false, &[off(6, 4)]);
        check(AnswerContent::Count(3), QueryKind::Count(QueryFilter::ALL), false, &[off(3, 4)]);
        check(AnswerContent::Count(3), QueryKind::Count(QueryFilter::ALL), true, &[]);
        check(AnswerContent::Count(6), QueryKind::Count(QueryFilter::ALL), true, &[off(6, 0)]);
        let of = |first, second| {
            AnswerContent::Buckets(vec![bucket(Millis(0), Millis(3), first), bucket(Millis(3), Millis(9), second)])
        };
        check(of(2, 3), QueryKind::Histogram, false, &[]);
        check(of(3, 2), QueryKind::Histogram, false, &[Violation::Miscounted { count: 3, least: 2, most: 2 }]);
        let one = AnswerContent::Buckets(vec![bucket(Millis(3), Millis(9), 2)]);
        check(one, QueryKind::Histogram, false, &[Violation::Lost(id(1)), Violation::Lost(id(2))]);
    }
}
