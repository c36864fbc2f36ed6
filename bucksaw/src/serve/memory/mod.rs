//! The memory limit, and its division into budgets.
//!
//! The limit is `--memory-limit`, or the least of what the control groups, the address space and the machine allow.
//! [`MemoryPlan::for_limit`] derives all budgets; from 8 GB on each has its full size.
//!
//! Invariant: the budgets of a plan add up to at most its limit.

#[cfg(target_os = "linux")]
mod allocator;
mod cgroup;

use std::path::Path;

use anyhow::{anyhow, bail};
use bucksaw_segment::OpenError;
use rustix::process::{Resource, getrlimit};
use tracing::info;

use crate::print::human_bytes;
use crate::values::ByteSize;

const KB: u64 = 1 << 10;
const MB: u64 = 1 << 20;
const GB: u64 = 1 << 30;

/// Smallest limit with which a node starts.
pub(super) const LIMIT_MIN_BYTES: u64 = 128 * MB;

/// Limit from which on every budget has its full size.
const LARGE: u64 = 8 * GB;

/// Limit from which on only the number of threads limits the memory of scans and merges.
const AMPLE_BYTES: u64 = 4 * GB;

/// Part of the limit for the index of stored segments.
const STORE_INDEX_DIVISOR: u64 = 32;

/// One answer to a stalled reader (eight queued frames and one being rendered), and one tail, with records of at most
/// [`TYPICAL_RECORD_BYTES`].
const ANSWER_BYTES: u64 = 5 * MB / 2;
const TAIL_BYTES: u64 = 2 * MB;

/// Longest records that an answer or a tail may hold.
const RECORDS_HELD: u64 = 2;
const TYPICAL_RECORD_BYTES: u64 = MB;

/// Part of the limit that one record may take. Budgets for several records are multiples of it.
const RECORD_DIVISOR: u64 = 128;

/// Smallest budget of bodies: one with records of [`TYPICAL_RECORD_BYTES`], and a quarter.
const BODIES_BYTES_MIN: u64 = 65 * MB / 4 * 5 / 4;

/// A remembered idempotency key with its part of growing tables, and a further section of its batch.
const KEY_BYTES: u64 = 80;
const SECTION_BYTES: u64 = 96;

/// The limit and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemoryLimit {
    pub(super) bytes: u64,
    /// As part of a sentence: "the memory of the machine".
    pub(super) origin: String,
}

/// The budgets of a node, in bytes or as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryPlan {
    /// Unread results; the limit of `--query-memory-bytes`.
    pub(super) unread_results: u64,
    /// The block cache by default, and the limit of `--query-cache-bytes`.
    pub(super) block_cache: u64,
    pub(super) block_cache_max: u64,
    /// Blocks and frames being scanned.
    pub(super) scans: u64,
    /// States of automata.
    pub(super) automata: u64,
    /// HTTP bodies being ingested; the limit of `--max-bodies-bytes`.
    pub(super) bodies: u64,
    /// Unfinished lines of one listener, and again unfinished frames. As much for unfinished messages of all senders of other
    /// log systems, their frames, and messages in several datagrams.
    pub(super) partial_lines: u64,
    /// Unsynced records.
    pub(super) unsynced: u64,
    /// Longest record; the limit of `--max-record-bytes`.
    pub(super) record_max: u64,
    /// Remembered idempotency keys, and sections of their batches after the first.
    pub(super) keys: usize,
    pub(super) sections: usize,
    /// Text of one gather.
    pub(super) merge_input: u64,
    /// Index of queue segments.
    pub(super) queue_index: u64,
    /// Index of stored segments. Work in progress may exceed it by an eighth; a start, which then accepts nothing, by
    /// half.
    pub(super) store_index: u64,
    /// A queue segment; the limit of `--segment-max-bytes`.
    pub(super) queue_segment: u64,
    /// Open blocks of a merge.
    pub(super) merge_blocks: u64,
    /// Text of one range of repair.
    pub(super) repair: u64,
    /// Text of a block.
    pub(super) block: u64,
    /// Queries being processed, answers being read, and tails.
    pub(super) queries: usize,
    pub(super) answers: usize,
    pub(super) tails: usize,
    /// Answers that are compressed at once; further ones are sent as they are.
    pub(super) compressed: usize,
    /// Requests and tails of other nodes.
    pub(super) served: usize,
    pub(super) served_tails: usize,
    /// HTTP bodies being processed.
    pub(super) ingests: usize,
    /// Connections of the HTTP listener, and of one listener for lines.
    pub(super) http_connections: usize,
    pub(super) line_connections: usize,
    /// Blocking threads of a runtime.
    pub(super) blocking_threads: usize,
}

impl MemoryPlan {
    /// Divides a limit of at least [`LIMIT_MIN_BYTES`].
    pub(super) fn for_limit(limit: u64) -> Self {
        let limit = limit.max(LIMIT_MIN_BYTES);
        let part = |divisor: u64, most: u64| (limit / divisor).min(most);
        let number = |each: u64, most: usize| usize::try_from(limit / each).unwrap_or(most).min(most);
        let ample = |bytes: u64| if limit < AMPLE_BYTES { bytes } else { u64::MAX };
        let cache_part = match limit {
            ..GB => 64,
            GB..LARGE => 12,
            LARGE.. => 8,
        };
        let block_cache_max = limit / cache_part;
        Self {
            unread_results: limit / 32,
            block_cache: block_cache_max.min(GB),
            block_cache_max,
            scans: ample(limit / 32),
            automata: part(48, 128 * MB),
            bodies: (limit / if limit < LARGE { 6 } else { 4 }).max(BODIES_BYTES_MIN),
            partial_lines: part(128, 64 * MB),
            unsynced: part(64, 32 * MB),
            record_max: part(RECORD_DIVISOR, bucksaw_sources::Config::RECORD_BYTES_LIMIT as u64),
            keys: number(64 * KEY_BYTES, 900_000),
            sections: number(256 * SECTION_BYTES, 1 << 18),
            merge_input: part(32, 128 * MB),
            queue_index: part(64, 128 * MB),
            store_index: limit / STORE_INDEX_DIVISOR,
            queue_segment: limit / 16,
            merge_blocks: ample(limit / 48),
            repair: part(96, 32 * MB),
            block: part(128, 16 * MB),
            queries: number(32 * MB, 16),
            answers: number(32 * MB, 64),
            tails: number(if limit < GB { 64 * MB } else { 32 * MB }, 256),
            compressed: number(256 * MB, 16),
            served: number(8 * MB, 256),
            served_tails: number(16 * MB, 512),
            ingests: number(8 * MB, 32),
            http_connections: number(512 * KB, 8_192),
            line_connections: number(128 * KB, 10_000),
            blocking_threads: number(4 * MB, 128),
        }
    }

    /// The plan for records of at most this length in bytes, with fewer answers and tails if they are long.
    pub(super) fn with_record_bytes(self, bytes: u64, limit: &MemoryLimit) -> anyhow::Result<Self> {
        if bytes > self.record_max {
            bail!(
                "--max-record-bytes is {}, and the memory limit of {} ({}) allows records of at most {}: lower \
                 --max-record-bytes, or give the node {}",
                human_bytes(bytes),
                human_bytes(limit.bytes),
                limit.origin,
                human_bytes(self.record_max),
                human_bytes(bytes.saturating_mul(RECORD_DIVISOR)),
            );
        }
        let fewer = |number: usize, each: u64| {
            let parts = (each + Self::extra_bytes(bytes)).div_ceil(KB);
            number.saturating_mul(usize::try_from(each / KB).unwrap_or(1))
                / usize::try_from(parts).unwrap_or(usize::MAX)
        };
        Ok(Self { answers: fewer(self.answers, ANSWER_BYTES), tails: fewer(self.tails, TAIL_BYTES), ..self })
    }

    /// Additional memory of an answer or a tail with records of this length.
    fn extra_bytes(record_bytes: u64) -> u64 {
        record_bytes.saturating_sub(TYPICAL_RECORD_BYTES) * RECORDS_HELD
    }
}

/// The memory limit, given `--memory-limit`. Refuses one with which the node would not work or be killed. Call it
/// first: it may execute the program again.
pub(super) fn limit(requested: Option<ByteSize>) -> anyhow::Result<MemoryLimit> {
    let limit = decide(requested.map(|size| size.0), detect())?;
    #[cfg(target_os = "linux")]
    allocator::restart_for(limit.bytes);
    info!(limit = %human_bytes(limit.bytes), from = limit.origin, "memory");
    Ok(limit)
}

fn decide(requested: Option<u64>, found: MemoryLimit) -> anyhow::Result<MemoryLimit> {
    let least = human_bytes(LIMIT_MIN_BYTES);
    if found.bytes < LIMIT_MIN_BYTES {
        bail!(
            "{} allows {}, and a node needs at least {least}: raise the limit of the container or service",
            found.origin,
            human_bytes(found.bytes)
        );
    }
    match requested {
        None => Ok(found),
        Some(bytes) if bytes < LIMIT_MIN_BYTES => {
            bail!("--memory-limit is {}, and a node needs at least {least}: give it more", human_bytes(bytes))
        }
        Some(bytes) if bytes > found.bytes => bail!(
            "--memory-limit is {}, and {} allows {}: the kernel would kill a node that uses more; lower or omit --memory-limit",
            human_bytes(bytes),
            found.origin,
            human_bytes(found.bytes)
        ),
        Some(bytes) => Ok(MemoryLimit { bytes, origin: "--memory-limit".to_owned() }),
    }
}

/// The least limit of this process.
fn detect() -> MemoryLimit {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    // If it is unknown: the largest memory that a plan uses.
    let total = Some(system.total_memory()).filter(|bytes| *bytes > 0).unwrap_or(LARGE);
    let machine = MemoryLimit { bytes: total, origin: "the memory of the machine".to_owned() };
    let text = |path: &str| read(Path::new(path)).unwrap_or_default();
    let group = cgroup::limit(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"), read);
    let group = group.map(|limit| MemoryLimit { bytes: limit.bytes, origin: limit.file.display().to_string() });
    let space = getrlimit(Resource::As).current;
    let space =
        space.map(|bytes| MemoryLimit { bytes, origin: "the limit of the address space (ulimit -v)".to_owned() });
    let others = [group, space].into_iter().flatten();
    others.fold(machine, |least, limit| if limit.bytes < least.bytes { limit } else { least })
}

/// Adds to an error of opening a store how much memory it needs, if that is the reason.
pub(super) fn explain_open_error(error: OpenError, limit: &MemoryLimit) -> anyhow::Error {
    let OpenError::Memory { dir, needed, max } = error else { return error.into() };
    // Also enough to accept records.
    let least = needed.saturating_mul(STORE_INDEX_DIVISOR);
    anyhow!(
        "the index of the segments in {} takes {} of memory, and a memory limit of {} ({}) leaves it {}: give the node at least \
         {} MB, by --memory-limit or by the limit of its container, or move the oldest segments elsewhere",
        dir.display(),
        human_bytes(needed),
        human_bytes(limit.bytes),
        limit.origin,
        human_bytes(max),
        least / MB + 1,
    )
}

/// Anonymous memory of the process in bytes, if known.
pub(super) fn used() -> Option<u64> {
    let status = read(Path::new("/proc/self/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * KB)
}

/// Reads a file of the kernel.
fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The program, its runtimes and stacks, and memory that the allocator cannot return.
    const BASE_BYTES: u64 = 16 * MB;

    /// A served request of another node: a batch and its part in the buffers of the connection.
    const SERVED: u64 = 384 * KB;

    /// The encoder of a compressed answer, with its output.
    const ENCODER_BYTES: u64 = MB;

    /// Part of the limit that the kernel takes for the node, such as for connections.
    const KERNEL_PART: u64 = 20;

    /// Budgets of the three listeners for lines: each has one for unfinished lines and one for unfinished frames. The other
    /// listeners have three together.
    const LINE_BUDGETS: u64 = 2 * 3 + 3;

    /// Memory of a block being encoded, in multiples of its text: the text twice, and its columns.
    const ENCODE_FACTOR: u64 = 4;

    /// Gather, compaction and repair may each encode a block.
    const ENCODERS: u64 = 3;

    /// The sum of all budgets with records of this length. Unlimited budgets count as the memory of a few threads.
    fn sum(plan: &MemoryPlan, record_bytes: u64) -> u64 {
        let scans = plan.scans.min(GB / 2);
        let store = plan.merge_input + plan.queue_segment + plan.merge_blocks.min(GB / 4) + plan.repair;
        let more = MemoryPlan::extra_bytes(record_bytes);
        BASE_BYTES
            + plan.unread_results
            + plan.block_cache_max
            + scans
            + plan.automata
            + plan.bodies
            + plan.partial_lines * LINE_BUDGETS
            + plan.unsynced
            + plan.queue_index
            + plan.store_index
            + plan.store_index / 8
            + plan.keys as u64 * KEY_BYTES
            + plan.sections as u64 * SECTION_BYTES
            + store
            + plan.block * ENCODE_FACTOR * ENCODERS
            + plan.answers as u64 * (ANSWER_BYTES + more)
            + plan.tails as u64 * (TAIL_BYTES + more)
            + plan.compressed as u64 * ENCODER_BYTES
            + (plan.served + plan.served_tails) as u64 * SERVED
    }

    #[test]
    fn budgets_add_up_to_at_most_the_limit() {
        let check = |limit: u64| {
            let plan = MemoryPlan::for_limit(limit);
            assert!(
                plan.block >= MB && plan.record_max >= TYPICAL_RECORD_BYTES && plan.keys > 10_000,
                "{limit}: {plan:?}"
            );
            let from = MemoryLimit { bytes: limit, origin: "a test".to_owned() };
            for record in [1, TYPICAL_RECORD_BYTES, plan.record_max / 2, plan.record_max] {
                let plan = plan.with_record_bytes(record, &from).unwrap();
                assert!(
                    sum(&plan, record) <= limit - limit / KERNEL_PART,
                    "{limit}: {} of {plan:?}",
                    sum(&plan, record)
                );
                assert!(plan.queries > 1 && plan.answers > 1 && plan.tails > 0, "{limit}: {plan:?}");
            }
            // The budgets of unfinished lines and of bodies have room for one record.
            assert!(plan.record_max <= plan.partial_lines);
            let body =
                bucksaw_api::Config { record_bytes_max: plan.record_max as usize, ..bucksaw_api::Config::default() };
            assert!(body.body_bytes_max() as u64 * 5 / 4 <= plan.bodies, "{limit}: {plan:?}");
        };
        (0..4_000).for_each(|step| check(LIMIT_MIN_BYTES + step * 3 * MB));
        check(u64::MAX);
        proptest!(|(limit in LIMIT_MIN_BYTES..64 * GB)| check(limit));
    }

    #[test]
    fn a_large_machine_has_every_budget_in_full() {
        let api = bucksaw_api::Config::default();
        let query = bucksaw_query::Config::default();
        let (store, ingest) = (bucksaw_store::Config::default(), bucksaw_ingest::Config::default());
        let sources = bucksaw_sources::Config::default();
        for limit in [8 * GB, 9 * GB, 1 << 50] {
            let plan = MemoryPlan::for_limit(limit);
            assert_eq!((plan.block_cache, plan.scans), (GB, query.scan_bytes_max));
            // Flags may ask for more than their defaults.
            assert!(
                plan.unread_results >= 2 * query.result_bytes_max && plan.bodies >= 2 * api.bodies_bytes_max as u64
            );
            assert!(plan.queue_segment >= 2 * ingest.segment_bytes_max);
            assert_eq!(plan.automata, bucksaw_scan_max());
            assert_eq!(
                (plan.partial_lines, plan.unsynced),
                (sources.partial_bytes_max as u64, ingest.unsynced_bytes_max)
            );
            assert_eq!(plan.merge_input, store.gather_bytes);
            assert_eq!(plan.record_max, bucksaw_sources::Config::RECORD_BYTES_LIMIT as u64);
            assert_eq!(plan.queue_index, ingest.index_bytes_max);
            assert_eq!((plan.keys, plan.sections), (ingest.keys_max, ingest.key_sections_max));
            assert_eq!((plan.merge_blocks, plan.repair), (store.merge_bytes_max, store.repair.range_bytes));
            assert_eq!(plan.block, store.block_bytes);
            assert_eq!((plan.queries, plan.answers, plan.tails), (api.queries_max, api.answers_max, api.tails_max));
            assert_eq!(plan.compressed, api.compressed_max);
            assert_eq!((plan.served, plan.served_tails), (query.served_max, query.served_tails_max));
            assert_eq!((plan.ingests, plan.http_connections), (api.ingests_max, api.connections_max));
            assert_eq!((plan.line_connections, plan.blocking_threads), (sources.connections_max, 128));
        }
    }

    #[test]
    fn an_index_that_is_too_large_is_refused_and_the_needed_limit_named() {
        for needed in [7 * MB, 9 * MB + 1, 100 * MB, 3 * GB] {
            let limit = MemoryLimit { bytes: LIMIT_MIN_BYTES, origin: "/a/memory.max".to_owned() };
            let error = OpenError::Memory { dir: "/d/store".into(), needed, max: 6 * MB };
            let said = explain_open_error(error, &limit).to_string();
            let words = ["/d/store", "128.0 MB", "/a/memory.max", "6.0 MB", "--memory-limit"];
            words.iter().for_each(|word| assert!(said.contains(word), "{word}: {said}"));
            let least = said.split("at least ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
            let least = least.parse::<u64>().unwrap() * MB;
            let part = |limit: u64| MemoryPlan::for_limit(limit).store_index;
            assert!(part(least) >= needed && part(least - 3 * MB) < needed, "{needed}: {said}");
        }
    }

    #[test]
    fn records_that_are_too_long_are_refused() {
        let check = |limit: u64, record: u64, want: Result<(usize, usize), &[&str]>| {
            let from = MemoryLimit { bytes: limit, origin: "/a/memory.max".to_owned() };
            match (MemoryPlan::for_limit(limit).with_record_bytes(record, &from), want) {
                (Ok(plan), Ok(want)) => assert_eq!((plan.answers, plan.tails), want, "{limit} {record}"),
                (Err(error), Err(words)) => {
                    let message = error.to_string();
                    words.iter().for_each(|word| assert!(message.contains(word), "{word}: {message}"));
                }
                (got, want) => panic!("{limit} {record}: {got:?}, and not {want:?}"),
            }
        };
        check(128 * MB, MB, Ok((4, 2)));
        check(128 * MB, MB + 1, Err(&["128.0 MB (/a/memory.max)", "at most 1.0 MB"]));
        check(128 * MB, 16 * MB, Err(&["--max-record-bytes is 16.0 MB", "at most 1.0 MB", "give the node 2.0 GB"]));
        check(GB, 8 * MB, Ok((4, 4)));
        check(GB, 16 * MB, Err(&["at most 8.0 MB"]));
        check(8 * GB, MB, Ok((64, 256)));
        check(8 * GB, 16 * MB, Ok((4, 16)));
    }

    fn bucksaw_scan_max() -> u64 {
        bucksaw_query::AUTOMATA_BYTES_MAX as u64
    }

    #[test]
    fn a_limit_below_the_minimum_or_beyond_the_machine_is_refused() {
        let check = |requested: Option<u64>, found: u64, want: Result<(u64, &str), &[&str]>| {
            let found = MemoryLimit { bytes: found, origin: "/a/memory.max".to_owned() };
            match (decide(requested, found), want) {
                (Ok(limit), Ok((bytes, from))) => assert_eq!((limit.bytes, limit.origin.as_str()), (bytes, from)),
                (Err(error), Err(words)) => {
                    let message = error.to_string();
                    words.iter().for_each(|word| assert!(message.contains(word), "{word}: {message}"));
                }
                (got, want) => panic!("{requested:?}: {got:?}, and not {want:?}"),
            }
        };
        check(None, LIMIT_MIN_BYTES, Ok((LIMIT_MIN_BYTES, "/a/memory.max")));
        check(None, LIMIT_MIN_BYTES - 1, Err(&["/a/memory.max allows", "needs at least 128"]));
        check(None, 64 * MB, Err(&["64", "raise the limit"]));
        check(Some(GB), 2 * GB, Ok((GB, "--memory-limit")));
        check(Some(2 * GB), 2 * GB, Ok((2 * GB, "--memory-limit")));
        check(Some(2 * GB + 1), 2 * GB, Err(&["--memory-limit", "/a/memory.max", "kill"]));
        check(Some(64 * MB), 2 * GB, Err(&["--memory-limit is 64", "needs at least 128"]));
        check(Some(GB), 64 * MB, Err(&["/a/memory.max allows 64"]));
    }

    #[test]
    fn this_process_has_a_memory_limit() {
        assert!(detect().bytes > 0);
        assert!(used().is_none_or(|bytes| bytes > 0));
    }
}
