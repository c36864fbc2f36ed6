//! What is wrong with an answer.
//!
//! One that calls itself complete has every record that was acknowledged when it was asked for. Any has a record once at
//! most, and none that was refused. Counts are held between what must be there and what may be.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_query::{Bucket, Order, Stats};
use bucksaw_record::{Id, Millis, Producer};

use crate::ledger::{Ledger, Violation};
use crate::question::Kind;

/// What an answer says.
#[derive(Debug)]
pub(crate) enum Content {
    Records(Vec<(Id, Arc<str>)>),
    Count(u64),
    /// Those of a histogram that are not empty.
    Stretches(Vec<Bucket>),
}

impl Content {
    /// Adds what another one says, without a look at what both have.
    pub(crate) fn add(&mut self, other: Self) {
        match (self, other) {
            (Self::Records(all), Self::Records(more)) => all.extend(more),
            (Self::Count(all), Self::Count(more)) => *all += more,
            (Self::Stretches(all), Self::Stretches(more)) => {
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

/// An answer.
pub(crate) struct Answer {
    /// The machine that was asked, and when.
    pub(crate) asked_of: usize,
    pub(crate) asked_at: Duration,
    pub(crate) kind: Kind,
    /// What must be in it, if it is complete.
    pub(crate) due: BTreeSet<Id>,
    /// All is well: no node may be missing, and what is damaged somewhere must be elsewhere.
    pub(crate) is_last: bool,
    pub(crate) content: Content,
    pub(crate) stats: Stats,
}

impl Answer {
    /// Says in the log what it is.
    pub(crate) fn tell(&self) {
        let found = match &self.content {
            Content::Records(found) => found.len() as u64,
            Content::Count(count) => *count,
            Content::Stretches(buckets) => buckets.iter().map(|bucket| bucket.count).sum(),
        };
        let (asked_of, kind, due) = (self.asked_of, self.kind, self.due.len());
        let (nodes, reasons) = (self.stats.nodes.asked, self.stats.partial_reasons());
        let missing: Vec<String> = self.stats.nodes.missing.iter().map(ToString::to_string).collect();
        tracing::info!(asked_of, asked_at = ?self.asked_at, ?kind, due, found, nodes, ?missing, ?reasons, "an answer");
    }

    /// Whether it says that nothing is missing.
    pub(crate) fn is_complete(&self) -> bool {
        !self.stats.is_partial()
    }

    /// What is wrong with it.
    pub(crate) fn check(&self, ledger: &Ledger) -> Vec<Violation> {
        let none = BTreeSet::new();
        let sure = ledger.unspoilt(self.due.clone());
        let due = match (self.is_complete(), self.is_last) {
            (true, _) => &self.due,
            (false, true) => &sure,
            (false, false) => &none,
        };
        let mut violations = self.check_against(ledger, due);
        if self.is_last && (self.stats.nodes.incomplete || !self.stats.nodes.missing.is_empty()) {
            let words = format!("an answer is partial though all is well: {}", self.stats.partial_reasons().join("; "));
            violations.push(Violation::Unanswered(words));
        }
        violations
    }

    fn check_against(&self, ledger: &Ledger, due: &BTreeSet<Id>) -> Vec<Violation> {
        match (&self.content, self.kind) {
            (Content::Records(found), Kind::Records(order, limit)) => records(ledger, due, found, order, limit),
            (Content::Count(count), _) => stretches(ledger, due, &[bucket(Millis(0), Millis::MAX, *count)]),
            (Content::Stretches(buckets), _) => {
                // They are in order, and do not overlap.
                let counted = |id: &&Id| {
                    let before = buckets.partition_point(|bucket| bucket.to <= id.at());
                    buckets.get(before).is_some_and(|bucket| bucket.from <= id.at())
                };
                let still = ledger.still(due.iter().filter(|id| !counted(id)));
                let lost = still.into_iter().map(Violation::Lost);
                stretches(ledger, due, buckets).into_iter().chain(lost).collect()
            }
            (Content::Records(_), _) => Vec::new(),
        }
    }
}

/// The lowest id of a moment.
fn first_at(at: Millis) -> Id {
    Id::new(at, Producer::new(0), 0)
}

fn bucket(from: Millis, to: Millis, count: u64) -> Bucket {
    Bucket { from, to, count, levels: None }
}

fn records(
    ledger: &Ledger,
    due: &BTreeSet<Id>,
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
        return vec![Violation::Disordered(*id)];
    }
    // Behind its limit an answer has nothing; before that it has all.
    let last = found.last().filter(|_| limit.is_some_and(|limit| found.len() as u64 >= limit)).map(|(id, _)| *id);
    let due = due.iter().filter(|id| {
        last.is_none_or(|last| match order {
            Order::Ascending => **id <= last,
            Order::Descending => **id >= last,
        })
    });
    let due = due.copied().collect();
    let mut found = found.to_vec();
    found.sort();
    ledger.check(&due, &found)
}

/// Holds counts against what must be there and what may be.
fn stretches(ledger: &Ledger, due: &BTreeSet<Id>, buckets: &[Bucket]) -> Vec<Violation> {
    let (due, possible, unnumbered) = (ledger.still(due.iter()), ledger.possible(), ledger.unnumbered());
    let mut violations = Vec::new();
    for bucket in buckets {
        let inside = |ids: &BTreeSet<Id>| ids.range(first_at(bucket.from)..first_at(bucket.to)).count() as u64;
        let (least, most) = (inside(&due), inside(&possible) + unnumbered);
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

    /// Records 1 to 5, of which the last is unknown.
    fn ledger() -> Ledger {
        let ledger = Ledger::default();
        for number in 1..=5 {
            ledger.send(id(number), format!("text {number}"), Durability::Fast);
            ledger.tried(&[id(number)]);
        }
        ledger.acknowledged(&[id(1), id(2), id(3), id(4)], 0, 0);
        ledger
    }

    fn check(content: Content, kind: Kind, is_partial: bool, want: &[Violation]) {
        let ledger = ledger();
        let mut stats = Stats::default();
        stats.nodes.incomplete = is_partial;
        let due = ledger.due();
        let answer = Answer { asked_of: 0, asked_at: Duration::ZERO, kind, due, is_last: false, content, stats };
        assert_eq!(answer.check(&ledger), want, "{:?}", answer.content);
    }

    #[test]
    fn records_are_all_there_up_to_the_limit() {
        let of = |numbers: &[u32]| {
            Content::Records(numbers.iter().map(|number| (id(*number), format!("text {number}").into())).collect())
        };
        let all = |order| Kind::Records(order, None);
        check(of(&[1, 2, 3, 4]), all(Order::Ascending), false, &[]);
        check(of(&[5, 4, 3, 2, 1]), all(Order::Descending), false, &[]);
        check(of(&[1, 2, 4]), all(Order::Ascending), false, &[Violation::Lost(id(3))]);
        check(of(&[1, 2, 4]), all(Order::Ascending), true, &[]);
        check(of(&[1, 2, 2]), all(Order::Ascending), true, &[Violation::Doubled(id(2))]);
        check(of(&[1, 3, 2, 4]), all(Order::Ascending), false, &[Violation::Disordered(id(2))]);
        let some = |order| Kind::Records(order, Some(2));
        check(of(&[1, 2]), some(Order::Ascending), false, &[]);
        check(of(&[1, 3]), some(Order::Ascending), false, &[Violation::Lost(id(2))]);
        check(of(&[5, 4]), some(Order::Descending), false, &[]);
        check(of(&[3, 2]), some(Order::Descending), false, &[Violation::Lost(id(4))]);
        check(of(&[4]), some(Order::Descending), false, &[1, 2, 3].map(|number| Violation::Lost(id(number))));
    }

    #[test]
    fn counts_lie_between_what_must_and_what_may_be() {
        let off = |count, least| Violation::Miscounted { count, least, most: 5 };
        check(Content::Count(4), Kind::Count, false, &[]);
        check(Content::Count(5), Kind::Count, false, &[]);
        check(Content::Count(6), Kind::Count, false, &[off(6, 4)]);
        check(Content::Count(3), Kind::Count, false, &[off(3, 4)]);
        check(Content::Count(3), Kind::Count, true, &[]);
        check(Content::Count(6), Kind::Count, true, &[off(6, 0)]);
        let of = |first, second| {
            Content::Stretches(vec![bucket(Millis(0), Millis(3), first), bucket(Millis(3), Millis(9), second)])
        };
        check(of(2, 3), Kind::Histogram, false, &[]);
        check(of(3, 2), Kind::Histogram, false, &[Violation::Miscounted { count: 3, least: 2, most: 2 }]);
        let one = Content::Stretches(vec![bucket(Millis(3), Millis(9), 2)]);
        check(one, Kind::Histogram, false, &[Violation::Lost(id(1)), Violation::Lost(id(2))]);
    }
}
