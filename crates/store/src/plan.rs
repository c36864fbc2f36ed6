//! The merge policy: which segments to merge next, as a pure function of time ranges and sizes.
//!
//! Queries are slow with many small segments, and with many segments over the same time. So:
//!
//! * *Small neighbours*: at least [`INPUTS_MIN`] adjacent segments that fit into one, whose largest is no larger than the
//!   others together. The last condition bounds the write amplification: a record is rewritten only when its segment at
//!   least doubles, so at most log₂(target ÷ first size) times.
//! * *Overlap*: if more than [`DEPTH_MAX`] segments cover one moment, at least [`INPUTS_MIN`] of them of similar size are merged
//!   and divided into segments that do not overlap. The sizes are similar so that a large segment is not rewritten for each
//!   small one. So late records cost a few more rewrites, and not one per batch.
//!
//! Both apply within a replica group, whose segments other stores hold too, and to all segments without one: the digests of a
//! merge of several groups would equal those of no other store.
//!
//! If neither applies:
//!
//! * *Rewrite*: a full segment that was stored with the quick codec is rewritten alone, and one with streams that are past a
//!   retention of their own. The newest comes first, because queries mostly read new records.
//! * *Encryption*, if nothing else is due: a segment that is not encrypted with the current key is rewritten alone, the newest
//!   first.

use std::collections::BTreeMap;

use bucksaw_record::Id;
use bucksaw_segment::stored::ReplicaGroup;

/// Minimum inputs of a merge.
const INPUTS_MIN: usize = 4;

/// Maximum inputs of a merge: each has a block in memory.
const INPUTS_MAX: usize = 16;

/// Maximum ratio of the sizes of overlapping inputs.
const TIER_RATIO: u64 = 4;

/// Segments that may cover one moment without a merge.
const DEPTH_MAX: usize = 4;

/// A segment that may be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MergeCandidate {
    pub(crate) id: Id,
    /// The stores that have its records.
    pub(crate) group: Option<ReplicaGroup>,
    pub(crate) low: Id,
    pub(crate) high: Id,
    pub(crate) text_bytes: u64,
    /// Bytes of its file. A merge needs about as much space as its inputs, which exist until it ends.
    pub(crate) file_bytes: u64,
    /// Memory, in bytes, of its largest block when open.
    pub(crate) open_bytes: u64,
    /// Whether it is worth rewriting alone: to compress it better, or to remove streams that are past their retention.
    pub(crate) needs_rewrite: bool,
    /// Whether it is to be encrypted with another key. This is no part of the backlog, as no client waits for it.
    pub(crate) has_old_key: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MergePlan {
    /// Its inputs; empty if nothing is due.
    pub(crate) chosen: Vec<Id>,
    /// Bytes of text of all segments that could be merged or recompressed now. Later merges of the outputs are not included.
    pub(crate) mergeable_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MergeLimits {
    /// Bytes of text of a full segment.
    pub(crate) target_bytes: u64,
    /// Memory, in bytes, of the open blocks: one of each input.
    pub(crate) open_bytes_max: u64,
    /// Bytes of files that may be read.
    pub(crate) room_bytes: u64,
}

/// Plans the next merge. `segments` are sorted by `low`. A segment that alone exceeds the limits is neither chosen nor counted.
pub(crate) fn plan(segments: &[MergeCandidate], limits: MergeLimits) -> MergePlan {
    let fitting = segments.iter().filter(|segment| inputs_within_limits(std::slice::from_ref(segment), limits) == 1);
    let fitting: Vec<MergeCandidate> = fitting.copied().collect();
    let mut groups: BTreeMap<Option<ReplicaGroup>, Vec<MergeCandidate>> = BTreeMap::new();
    fitting.iter().for_each(|segment| groups.entry(segment.group).or_default().push(*segment));
    let (mut overlapping, mut adjacent): (Option<Vec<MergeCandidate>>, Option<Run>) = (None, None);
    let mut due_bytes = 0;
    for segments in groups.values() {
        let (deepest, (cheapest, small_bytes)) = (overlap(segments, limits), neighbours(segments, limits));
        let due = deepest.iter().flatten().filter(|segment| !segment.needs_rewrite);
        due_bytes += due.map(|segment| segment.text_bytes).sum::<u64>().max(small_bytes);
        overlapping = overlapping.into_iter().chain(deepest).max_by_key(Vec::len);
        adjacent = adjacent.into_iter().chain(cheapest).min_by_key(|run| run.cost);
    }
    let quick = fitting.iter().filter(|segment| segment.needs_rewrite);
    due_bytes += quick.clone().map(|segment| segment.text_bytes).sum::<u64>();
    let newest = quick.max_by_key(|segment| segment.high).map(|segment| vec![*segment]);
    let old_key = fitting.iter().filter(|segment| segment.has_old_key).max_by_key(|segment| segment.high);
    let adjacent = adjacent.map(|run| run.segments);
    let chosen = overlapping.or(adjacent).or(newest).or(old_key.map(|segment| vec![*segment])).unwrap_or_default();
    MergePlan { chosen: chosen.iter().map(|segment| segment.id).collect(), mergeable_bytes: due_bytes }
}

/// Adjacent segments that fit into one.
struct Run {
    /// Bytes of text that are rewritten for each segment that disappears.
    cost: u64,
    segments: Vec<MergeCandidate>,
}

/// The smallest segments of similar size at the moment that the most segments cover, up to the limits.
fn overlap(segments: &[MergeCandidate], limits: MergeLimits) -> Option<Vec<MergeCandidate>> {
    let mut open: Vec<MergeCandidate> = Vec::new();
    let mut deepest: Vec<MergeCandidate> = Vec::new();
    for segment in segments {
        open.retain(|other| other.high >= segment.low);
        open.push(*segment);
        if open.len() > deepest.len() {
            deepest.clone_from(&open);
        }
    }
    if deepest.len() <= DEPTH_MAX {
        return None;
    }
    deepest.sort_by_key(|segment| segment.text_bytes);
    (0..deepest.len()).find_map(|start| {
        let rest = deepest.get(start..)?;
        let largest = rest.first()?.text_bytes.saturating_mul(TIER_RATIO);
        let inputs_max = inputs_within_limits(rest, limits);
        let alike = rest.iter().take(inputs_max).take_while(|segment| segment.text_bytes <= largest).count();
        rest.get(..alike).filter(|tier| tier.len() >= INPUTS_MIN).map(<[MergeCandidate]>::to_vec)
    })
}

/// How many of the first segments one merge may read.
fn inputs_within_limits(segments: &[MergeCandidate], limits: MergeLimits) -> usize {
    let (mut open, mut files) = (0_u64, 0_u64);
    let fits = |segment: &&MergeCandidate| {
        open = open.saturating_add(segment.open_bytes);
        files = files.saturating_add(segment.file_bytes);
        open <= limits.open_bytes_max && files <= limits.room_bytes
    };
    segments.iter().take(INPUTS_MAX).take_while(fits).count()
}

/// The cheapest run of small neighbours, and the text bytes of the segments in any run that need no recompression.
fn neighbours(segments: &[MergeCandidate], limits: MergeLimits) -> (Option<Run>, u64) {
    let mut best: Option<(u64, &[MergeCandidate])> = None;
    let (mut due_bytes, mut due_to) = (0, 0);
    for start in 0..segments.len() {
        let Some(rest) = segments.get(start..) else { break };
        let (mut sum, mut largest) = (0, 0);
        let mut longest = None;
        for (at, segment) in rest.iter().enumerate().take(inputs_within_limits(rest, limits)) {
            sum += segment.text_bytes;
            largest = largest.max(segment.text_bytes);
            if sum > limits.target_bytes {
                break;
            }
            if at + 1 >= INPUTS_MIN && largest <= sum - largest {
                longest = rest.get(..=at).map(|run| (sum, run));
            }
        }
        if let Some((sum, run)) = longest {
            // Cost per removed segment: merging many small ones gains most.
            let cost = sum / run.len() as u64;
            let fresh = run.get(due_to.max(start) - start..).unwrap_or_default();
            let counted = fresh.iter().filter(|segment| !segment.needs_rewrite);
            due_bytes += counted.map(|segment| segment.text_bytes).sum::<u64>();
            due_to = due_to.max(start + run.len());
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, run));
            }
        }
    }
    (best.map(|(cost, run)| Run { cost, segments: run.to_vec() }), due_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bucksaw_record::{Millis, Producer};

    const TARGET: u64 = 128 << 20;

    /// A plan with unlimited memory.
    fn plan(segments: &[MergeCandidate], target_bytes: u64, room_bytes: u64) -> MergePlan {
        super::plan(segments, MergeLimits { target_bytes, open_bytes_max: u64::MAX, room_bytes })
    }

    fn candidate(number: u64, low: u64, high: u64, text_bytes: u64) -> MergeCandidate {
        let at = |ms| Id::first_at(Millis(ms));
        let id = Id::new(Millis(1), Producer::new(number), 0);
        let (file_bytes, open_bytes) = (text_bytes / 10, text_bytes.min(1 << 20));
        MergeCandidate {
            id,
            group: None,
            low: at(low),
            high: at(high),
            text_bytes,
            file_bytes,
            open_bytes,
            needs_rewrite: false,
            has_old_key: false,
        }
    }

    /// Adds `count` segments of `bytes` and merges as planned after each. Returns the number of segments and the write
    /// amplification of the merges.
    fn simulate(count: u64, bytes: u64, span: impl Fn(u64) -> (u64, u64)) -> (usize, f64) {
        let mut segments: Vec<MergeCandidate> = Vec::new();
        let mut written = 0;
        let mut next = 0;
        for number in 0..count {
            let (low, high) = span(number);
            segments.push(candidate(number, low, high, bytes));
            loop {
                segments.sort_by_key(|segment| segment.low);
                let MergePlan { chosen, mergeable_bytes } = plan(&segments, TARGET, u64::MAX);
                let of_chosen = segments.iter().filter(|segment| chosen.contains(&segment.id));
                assert!(mergeable_bytes >= of_chosen.map(|segment| segment.text_bytes).sum());
                if chosen.is_empty() {
                    break;
                }
                let (inputs, rest): (Vec<_>, Vec<_>) =
                    segments.iter().partition(|segment| chosen.contains(&segment.id));
                segments = rest;
                let low = inputs.iter().map(|input: &MergeCandidate| input.low).min().unwrap();
                let high = inputs.iter().map(|input| input.high).max().unwrap();
                let sum: u64 = inputs.iter().map(|input| input.text_bytes).sum();
                written += sum;
                // Outputs have the target size and do not overlap; records are assumed to be evenly distributed.
                let parts = sum.div_ceil(TARGET);
                let (first, last) = (low.time().0, high.time().0);
                for part in 0..parts {
                    next += 1;
                    let cut = |part: u64| first + (last - first) * part / parts;
                    let end = if part + 1 == parts { last } else { cut(part + 1).saturating_sub(1).max(cut(part)) };
                    segments.push(candidate(1_000_000 + next, cut(part), end, sum / parts));
                }
            }
        }
        (segments.len(), written as f64 / (count * bytes) as f64)
    }

    #[test]
    fn small_neighbours_are_merged_few_times() {
        for bytes in [10_u64 << 10, 1 << 20, 10 << 20] {
            let (left, amplification) = simulate(3_000, bytes, |number| (number * 10, number * 10 + 9));
            let full = (3_000 * bytes / TARGET) as usize;
            assert!(left <= full * 2 + 40, "{bytes}: {left} segments");
            assert!(amplification <= (TARGET as f64 / bytes as f64).log2() + 1.0, "{bytes}: {amplification}");
        }
    }

    #[test]
    fn replica_groups_are_merged_by_themselves() {
        let group = |number| std::num::NonZeroU64::new(number).map(ReplicaGroup);
        let interleaved = |groups: u64, per_group: u64| -> Vec<MergeCandidate> {
            let all = (0..groups * per_group).map(|number| MergeCandidate {
                group: group(number % groups),
                ..candidate(number, number * 10, number * 10 + 9, 1_000)
            });
            all.collect()
        };
        assert_eq!(plan(&interleaved(3, 3), TARGET, u64::MAX), MergePlan::default());
        let enough = interleaved(3, 5);
        let MergePlan { chosen, mergeable_bytes } = plan(&enough, TARGET, u64::MAX);
        let groups = enough.iter().filter(|segment| chosen.contains(&segment.id)).map(|segment| segment.group);
        assert!(chosen.len() == 5 && mergeable_bytes == 15_000 && groups.clone().min() == groups.max());
        let deep =
            (0..9).map(|number| MergeCandidate { group: group(number % 3), ..candidate(number, 0, 100, TARGET) });
        assert_eq!(plan(&deep.collect::<Vec<_>>(), TARGET, u64::MAX), MergePlan::default());
    }

    #[test]
    fn full_segments_are_left_alone() {
        let (left, amplification) = simulate(200, TARGET, |number| (number * 10, number * 10 + 10));
        assert_eq!((left, amplification), (200, 0.0));
    }

    #[test]
    fn late_records_do_not_make_everything_overlap() {
        let (_, amplification) = simulate(1_000, 1 << 20, |number| (0, number * 10 + 9));
        assert!(amplification < 14.0, "{amplification}");
        let deep: Vec<MergeCandidate> = (0..9).map(|number| candidate(number, 0, 100, TARGET)).collect();
        assert_eq!(plan(&deep, TARGET, u64::MAX).chosen.len(), 9);
        assert_eq!(plan(&deep, TARGET, u64::MAX).mergeable_bytes, 9 * TARGET);
    }

    #[test]
    fn too_few_segments_are_not_merged() {
        assert_eq!(plan(&[], TARGET, u64::MAX), MergePlan::default());
        let few: Vec<MergeCandidate> =
            (0..3).map(|number| candidate(number, number * 10, number * 10 + 9, 5)).collect();
        assert_eq!(plan(&few, TARGET, u64::MAX), MergePlan::default());
    }

    #[test]
    fn mergeable_bytes_count_once() {
        let small = |count: u64| -> Vec<MergeCandidate> {
            (0..count).map(|number| candidate(number, number * 10, number * 10 + 9, 1_000)).collect()
        };
        assert_eq!(plan(&small(100), TARGET, u64::MAX).mergeable_bytes, 100_000);
        // A full segment ends a run: five before it, and three behind it, which are too few.
        let mut mixed = small(9);
        mixed[5].text_bytes = TARGET;
        assert_eq!(plan(&mixed, TARGET, u64::MAX).mergeable_bytes, 5_000);
    }

    #[test]
    fn open_blocks_fit_into_memory() {
        let deep: Vec<MergeCandidate> = (0..20).map(|number| candidate(number, 0, 100, TARGET)).collect();
        let flat: Vec<MergeCandidate> =
            (0..20).map(|number| candidate(number, number * 9, number * 9, 2 << 20)).collect();
        let chosen = |segments: &[MergeCandidate], open_bytes_max| {
            super::plan(segments, MergeLimits { target_bytes: TARGET, open_bytes_max, room_bytes: u64::MAX })
                .chosen
                .len()
        };
        for segments in [&deep, &flat] {
            assert_eq!(chosen(segments, u64::MAX), 16);
            assert_eq!(chosen(segments, 6 << 20), 6);
            assert_eq!(chosen(segments, 3 << 20), 0, "fewer than the minimum");
        }
        let mut mixed = flat.clone();
        mixed[0].open_bytes = 40 << 20;
        assert_eq!(chosen(&mixed, 32 << 20), 16, "the others are merged without it");
        let quick = [MergeCandidate { needs_rewrite: true, ..deep[0] }];
        assert_eq!((chosen(&quick, 1 << 20), chosen(&quick, 1 << 19)), (1, 0));
    }

    #[test]
    fn recompression_comes_after_merges_and_counts_once() {
        let quick = |number, text_bytes| MergeCandidate {
            needs_rewrite: true,
            ..candidate(number, number * 10, number * 10 + 9, text_bytes)
        };
        let large = [quick(0, TARGET), quick(1, TARGET), candidate(2, 20, 29, TARGET)];
        let all = plan(&large, TARGET, u64::MAX);
        assert_eq!((all.chosen, all.mergeable_bytes), (vec![large[1].id], 2 * TARGET));
        assert_eq!(plan(&large[2..], TARGET, u64::MAX), MergePlan::default());
        // A merge recompresses its inputs.
        let mut run: Vec<MergeCandidate> = (0..4).map(|number| quick(number, TARGET / 5)).collect();
        run.push(quick(4, TARGET));
        let first = plan(&run, TARGET, u64::MAX);
        assert_eq!((first.chosen.len(), first.mergeable_bytes), (4, TARGET / 5 * 4 + TARGET));
    }

    #[test]
    fn rewriting_for_a_key_comes_last_and_is_no_backlog() {
        let old = |number: u64, text_bytes| MergeCandidate {
            has_old_key: true,
            ..candidate(number, number * 10, number * 10 + 9, text_bytes)
        };
        let large = [old(0, TARGET), old(1, TARGET), candidate(2, 20, 29, TARGET)];
        let all = plan(&large, TARGET, u64::MAX);
        assert_eq!((all.chosen, all.mergeable_bytes), (vec![large[1].id], 0), "the newest");
        let mut quick = large;
        quick[0].needs_rewrite = true;
        assert_eq!(plan(&quick, TARGET, u64::MAX).chosen, [large[0].id]);
    }
}
