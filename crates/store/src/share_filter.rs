//! Compares what a store holds with a [`SearchShare`], and selects the blocks that it reads for it.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;

use bucksaw_record::{Id, Millis};
use bucksaw_segment::RecordSummary;
use bucksaw_segment::stored::{IdSum, Interval, ReplicaGroup};

use crate::replica_token::{InvalidReplicaToken, ReplicaToken};
use crate::search_share::{ReplicaRun, ReplicaState, SearchShare, ShareStatus};
use crate::segment_list::SegmentList;
use crate::segment_store::SegmentStore;
use crate::stored_segment::StoredSegment;

impl SegmentStore {
    /// The state of the replicated records of the intervals of a range; `None` if records have no replicas.
    pub fn replica_state(&self, ids: (Id, Id)) -> Option<ReplicaState> {
        if self.config.replication_factor <= 1 {
            return None;
        }
        // Before the list: a removal that comes between them makes this token an old one.
        let removals = self.removals.load(Ordering::SeqCst);
        let segments = self.segments();
        let compared = ComparedSegments::new(self, &segments, ids);
        let token = self.replica_token(removals, &compared).to_string();
        let ComparedSegments { sums, text_bytes, blocks, block_intervals, .. } = compared;
        let mut state = ReplicaState { token, interval_bits: 0, sums, text_bytes, blocks, block_intervals };
        while state.sums.len() > ReplicaState::SUMS_MAX && state.interval_bits < Interval::BITS {
            let bits = state.interval_bits + 1;
            state = state.coarse(bits);
        }
        Some(state)
    }

    /// Changes with what [`Self::replica_state`] says, except for damage; `None` if records have no replicas.
    pub fn replica_version(&self) -> Option<u64> {
        (self.config.replication_factor > 1).then(|| self.segments().version())
    }

    /// A sum that differs between stores with different rules of retention.
    pub(crate) fn retention_sum(&self) -> IdSum {
        let rules = format!("{:?} {:?}", self.config.retention_age, self.config.retention_labels);
        IdSum::of([Id::from_bits(crc32c::crc32c(rules.as_bytes()).into())])
    }

    fn replica_token(&self, removals: u64, compared: &ComparedSegments) -> ReplicaToken {
        let mut sum = IdSum::default();
        compared.sums.values().for_each(|part| sum.add(*part));
        ReplicaToken { start: self.start_id, removals, damaged_blocks: compared.damaged_blocks as u64, sum }
    }
}

/// The segments of some intervals whose sums are compared with those of other stores.
#[derive(Default)]
struct ComparedSegments {
    sums: BTreeMap<(ReplicaGroup, Interval), IdSum>,
    text_bytes: u64,
    blocks: u64,
    block_intervals: u64,
    /// Those in the sums.
    segments: HashSet<Id>,
    /// Damaged blocks of all others.
    damaged_blocks: usize,
}

impl ComparedSegments {
    fn new(store: &SegmentStore, segments: &SegmentList, ids: (Id, Id)) -> Self {
        let (first, last) = Interval::range(ids);
        let end = Id::first_at(Millis(Interval(last.0.saturating_add(1)).start().0));
        let rules = store.retention_sum();
        let mut compared = Self::default();
        for segment in segments.in_range(Id::first_at(first.start()), end).segments {
            let damaged_blocks = segment.damaged_block_count();
            let Some(digests) = segment.reader().replica_digests().filter(|_| damaged_blocks == 0) else {
                compared.damaged_blocks += damaged_blocks;
                continue;
            };
            compared.segments.insert(segment.id());
            compared.text_bytes += segment.reach().text_bytes;
            compared.blocks += segment.footer().blocks.len() as u64;
            compared.block_intervals += digests.iter().count() as u64;
            for digest in digests.iter().filter(|digest| (first..=last).contains(&digest.interval)) {
                compared.sums.entry((digests.group, digest.interval)).or_insert(rules).add(digest.sum);
            }
        }
        compared
    }

    fn sum_of(&self, run: &ReplicaRun) -> IdSum {
        let mut sum = IdSum::default();
        let intervals = self.sums.range((run.group, run.first)..=(run.group, run.last.max(run.first)));
        intervals.for_each(|(_, part)| sum.add(*part));
        sum
    }
}

/// The blocks that a store reads for its share.
pub(crate) struct ShareFilter {
    compared: HashSet<Id>,
    /// The last interval of each skipped run, by its group and first.
    skipped: BTreeMap<(ReplicaGroup, Interval), Interval>,
    only: Option<Vec<ReplicaRun>>,
    /// What has become of the share since the search was divided.
    pub(crate) status: ShareStatus,
}

impl ShareFilter {
    /// The filter over this snapshot of the segments of a range.
    pub(crate) fn new(store: &SegmentStore, segments: &SegmentList, ids: (Id, Id), share: &SearchShare) -> Self {
        let compared = ComparedSegments::new(store, segments, ids);
        let unchanged = share.skipped.iter().filter(|run| compared.sum_of(run) == run.sum);
        let skipped: BTreeMap<_, _> = unchanged.map(|run| ((run.group, run.first), run.last)).collect();
        // After the snapshot: a removal before it is counted.
        let token = store.replica_token(store.removals.load(Ordering::SeqCst), &compared);
        let status = match share.token.parse() {
            Ok(divided) if token == divided && skipped.len() == share.skipped.len() => ShareStatus::Current,
            Ok(divided) if token.has_all_of(&divided) => ShareStatus::Outdated,
            Ok(_) | Err(InvalidReplicaToken) => ShareStatus::Refused,
        };
        Self { skipped, only: share.only.clone(), status, compared: compared.segments }
    }

    /// Whether records of a segment with this summary, of all or of a block, are left to another store.
    pub(crate) fn excludes(&self, segment: &StoredSegment, summary: &RecordSummary) -> bool {
        let (first, last) = (Interval::of(summary.low), Interval::of(summary.high));
        let group = segment.replica_group();
        if let Some(only) = &self.only {
            let intersects = |run: &ReplicaRun| group == Some(run.group) && run.first <= last && first <= run.last;
            return !only.iter().any(intersects);
        }
        let Some(group) = group.filter(|_| self.compared.contains(&segment.id())) else { return false };
        let mut next = first;
        // Runs that follow each other cover a block together.
        while let Some((_, end)) = self.skipped.range((group, Interval(0))..=(group, next)).next_back() {
            if *end >= last {
                return true;
            }
            if *end < next {
                return false;
            }
            next = Interval(end.0 + 1);
        }
        false
    }
}
