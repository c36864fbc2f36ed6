//! The open erasures of a node, compiled.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::lock;
use bucksaw_record::{Expr, Id, LabelScope, Labels};
use bucksaw_scan::Plan;
use bucksaw_segment::{Chunk, RecordSummary};

use super::chunk_filter::{RetainedRows, retained};
use super::definition::Erasure;

/// Compiled expressions that are kept. One takes up to 16 MB, most take little; others are compiled again at need.
const PLANS_MAX: usize = 16;

/// The erasures that a node knows. Cheap to clone; replaced as a whole.
#[derive(Clone, Debug, Default)]
pub struct ErasureSet {
    /// By number.
    pub(super) open: Arc<Vec<OpenErasure>>,
    pub(super) plans: PlanCache,
}

/// An erasure in effect.
#[derive(Clone, Debug)]
pub(crate) struct OpenErasure {
    /// From 1 on, in the order in which this process learned of it.
    pub(super) number: u64,
    pub(super) erasure: Arc<Erasure>,
    pub(super) expr: Arc<Expr>,
    pub(super) scope: LabelScope,
    /// The uptime at which this process learned of it.
    pub(super) since: Duration,
}

/// The last used plans.
#[derive(Clone, Debug, Default)]
pub(super) struct PlanCache(Arc<Mutex<VecDeque<(Id, Plan)>>>);

impl PlanCache {
    /// The plan of an erasure. `None` never happens for a checked one.
    fn get(&self, open: &OpenErasure) -> Option<Plan> {
        let id = open.erasure.id;
        if let Some((_, plan)) = lock(&self.0).iter().find(|(known, _)| *known == id) {
            return Some(plan.clone());
        }
        let plan = Plan::compile(&open.expr).ok()?;
        let mut plans = lock(&self.0);
        plans.push_front((id, plan.clone()));
        plans.truncate(PLANS_MAX);
        Some(plan)
    }
}

impl OpenErasure {
    pub(super) fn covers(&self, labels: &Labels) -> bool {
        !labels.is_reserved() && self.scope.covers(labels)
    }
}

impl ErasureSet {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The number of the last one; 0 without one.
    pub(crate) fn last_number(&self) -> u64 {
        self.open.last().map_or(0, |open| open.number)
    }

    /// Those with a number above `checked` whose time range overlaps some records.
    pub(crate) fn overlapping(&self, reach: &RecordSummary, checked: u64) -> Self {
        let is_wanted = |open: &&OpenErasure| open.number > checked && open.erasure.overlaps(reach.low, reach.high);
        let open = Arc::new(self.open.iter().filter(is_wanted).cloned().collect());
        Self { open, plans: self.plans.clone() }
    }

    /// Their ids.
    pub(crate) fn ids(&self) -> Vec<Id> {
        self.open.iter().map(|open| open.erasure.id).collect()
    }

    /// Whether [`Self::overlapping`] would have some.
    pub(crate) fn overlaps(&self, reach: &RecordSummary, checked: u64) -> bool {
        let newer = self.open.iter().rev().take_while(|open| open.number > checked);
        newer.into_iter().any(|open| open.erasure.overlaps(reach.low, reach.high))
    }

    /// Those that may select records of a block with these streams and this skip filter.
    pub(crate) fn matching<'l>(
        &self,
        labels: impl Iterator<Item = &'l Labels> + Clone,
        may_match: impl Fn(&bucksaw_scan::BoundPlan) -> bool,
    ) -> Self {
        let is_wanted = |open: &&OpenErasure| {
            let Some(plan) = self.plans.get(open) else { return true };
            labels.clone().any(|labels| open.covers(labels) && may_match(&plan.bind(labels)))
        };
        let open = Arc::new(self.open.iter().filter(is_wanted).cloned().collect());
        Self { open, plans: self.plans.clone() }
    }

    /// The records of a chunk that remain; `None` if all do.
    pub fn retained(&self, chunk: &Chunk<'_>) -> Option<RetainedRows> {
        self.retained_counting(chunk, &mut |_, _, _| {})
    }

    /// The same. Passes each erasure that selects records to `count`, with their number and bytes. A record that several select
    /// counts for the first.
    pub(crate) fn retained_counting(
        &self,
        chunk: &Chunk<'_>,
        count: &mut dyn FnMut(Id, u64, u64),
    ) -> Option<RetainedRows> {
        let (low, high) = chunk.rows.id_range()?;
        let mut erased = roaring::RoaringBitmap::new();
        for open in self.open.iter().filter(|open| open.erasure.overlaps(low, high) && open.covers(chunk.labels)) {
            let Some(plan) = self.plans.get(open) else { continue };
            let (mut records, mut bytes) = (0, 0);
            plan.bind(chunk.labels).find(chunk, &|| false, &mut |found| {
                let is_inside = chunk.rows.id(found.row).is_some_and(|id| open.erasure.has_time(id));
                if is_inside && erased.insert(found.row) {
                    records += 1;
                    bytes += (found.end - found.start) as u64 + 1;
                }
                std::ops::ControlFlow::Continue(())
            });
            if records > 0 {
                count(open.erasure.id, records, bytes);
            }
        }
        (!erased.is_empty()).then(|| retained(chunk, &erased))
    }
}

/// The copies of records that a merge left out, by erasure. Cheap to clone; clones share.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErasedCounts(Arc<Mutex<BTreeMap<Id, (u64, u64)>>>);

impl ErasedCounts {
    pub(crate) fn add(&self, erasure: Id, records: u64, bytes: u64) {
        let mut counts = lock(&self.0);
        let sum = counts.entry(erasure).or_default();
        *sum = (sum.0 + records, sum.1 + bytes);
    }

    /// The sums so far: records and bytes of their text.
    pub(crate) fn take(&self) -> BTreeMap<Id, (u64, u64)> {
        std::mem::take(&mut lock(&self.0))
    }
}
