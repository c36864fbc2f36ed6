//! How much memory the node may use, and what each part of it may have of that.
//!
//! The limit is the least of what the control groups, the address space and the machine allow, or what `--memory-limit`
//! says. All budgets follow from it, in [`Plan::of`]. On a machine with 8 GB or more they are at their greatest.
//!
//! Invariant: the parts of a plan, taken together, are within its limit.
#![allow(clippy::disallowed_methods, reason = "reads files of the kernel")]

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

/// A node does not start with less.
pub(super) const LIMIT_MIN_BYTES: u64 = 128 * MB;

/// From here on every part has its greatest size.
const LARGE: u64 = 8 * GB;

/// From here on the memory of scans and merges is bounded by the number of threads alone.
const AMPLE_BYTES: u64 = 4 * GB;

/// The program itself, its runtimes and stacks, and what an allocator cannot give back.
#[cfg(test)]
const BASE_BYTES: u64 = 16 * MB;

/// The part of the limit that the index of stored segments may take.
const STORE_INDEX_DIVISOR: u64 = 32;

/// One answer on its way to a reader who stalls (eight pieces that wait, and one that is rendered), and one follower, with
/// records of at most [`USUAL_RECORD`].
const ANSWER_BYTES: u64 = 5 * MB / 2;
const FOLLOWER_BYTES: u64 = 2 * MB;

/// A question of a node that is answered: a batch, and what the connection has of it.
#[cfg(test)]
const SERVED: u64 = 384 * KB;

/// Memory that the kernel takes for the node, such as that of its connections, as a part of the limit.
#[cfg(test)]
const KERNEL_PART: u64 = 20;

/// An answer and a follower may hold this number of records of the greatest length.
const RECORDS_HELD: u64 = 2;
const TYPICAL_RECORD_BYTES: u64 = MB;

/// The part of the limit that a record may be. All that holds some records has a multiple of it.
const RECORD_DIVISOR: u64 = 128;

/// A body with records of [`USUAL_RECORD`], and a quarter: less does not count.
const BODIES_BYTES_MIN: u64 = 65 * MB / 4 * 5 / 4;

/// An idempotency key that is remembered, with its part of the tables while they grow, and a further section of its batch.
const KEY_BYTES: u64 = 80;
const SECTION_BYTES: u64 = 96;

/// Listeners for lines, of which each has a budget for unfinished lines and one for unfinished frames.
#[cfg(test)]
const LINE_BUDGETS: u64 = 2 * 3;

/// Memory of a block while it is packed, in multiples of its text: the text twice, and its columns.
#[cfg(test)]
const ENCODE_FACTOR: u64 = 4;

/// Gathering, merging and repair may each pack a block.
#[cfg(test)]
const ENCODERS: u64 = 3;

/// The limit, and what sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemoryLimit {
    pub(super) bytes: u64,
    /// Names it in a sentence: "the memory of the machine".
    pub(super) origin: String,
}

/// What each part of the node may have, in bytes unless its name says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryPlan {
    /// What queries have found and their readers have not read, as much as `--query-memory-bytes` may ask for.
    pub(super) unread_results: u64,
    /// Opened blocks that are kept, and as many as `--query-cache-bytes` may ask for.
    pub(super) block_cache: u64,
    pub(super) block_cache_max: u64,
    /// Blocks and frames that are being searched.
    pub(super) scans: u64,
    /// States of automata.
    pub(super) automata: u64,
    /// HTTP bodies that are being taken in, as much as `--max-bodies-bytes` may ask for.
    pub(super) bodies: u64,
    /// Unfinished lines of one listener, and as much for unfinished frames.
    pub(super) partial_lines: u64,
    /// Records that wait for a sync.
    pub(super) unsynced: u64,
    /// The longest record, as much as `--max-record-bytes` may ask for.
    pub(super) record_max: u64,
    /// How many idempotency keys are remembered, and how many sections of their batches behind the first.
    pub(super) keys: usize,
    pub(super) sections: usize,
    /// Text that is gathered at once.
    pub(super) merge_input: u64,
    /// What is known of each segment of the queue.
    pub(super) queue_index: u64,
    /// What is known of each stored segment: its blocks and labels. What is under way when it is used up may take an eighth
    /// more; a start, when nothing is accepted then, half more.
    pub(super) store_index: u64,
    /// A segment of the queue, as much as `--segment-max-bytes` may ask for.
    pub(super) queue_segment: u64,
    /// Blocks that a merge has open.
    pub(super) merge_blocks: u64,
    /// Text that repair compares at a time.
    pub(super) repair: u64,
    /// Text of a block.
    pub(super) block: u64,
    /// How many queries are worked on.
    pub(super) queries: usize,
    /// How many answers are being read.
    pub(super) answers: usize,
    /// How many clients follow.
    pub(super) followers: usize,
    /// How many questions of nodes are answered, and how many followers of nodes.
    pub(super) served: usize,
    pub(super) served_tails: usize,
    /// How many HTTP bodies are worked on.
    pub(super) ingests: usize,
    /// How many connections the HTTP listener may hold, and one listener for lines.
    pub(super) http_connections: usize,
    pub(super) line_connections: usize,
    /// How many threads a runtime may have for work that waits.
    pub(super) blocking_threads: usize,
}

impl MemoryPlan {
    /// The parts of a limit. No limit below [`LEAST`] counts.
    pub(super) fn for_limit(limit: u64) -> Self {
        let limit = limit.max(LIMIT_MIN_BYTES);
        let part = |divisor: u64, most: u64| (limit / divisor).min(most);
        let number = |each: u64, most: usize| usize::try_from(limit / each).unwrap_or(most).min(most);
        let ample = |bytes: u64| if limit < AMPLE_BYTES { bytes } else { u64::MAX };
        let opened_part = match limit {
            ..GB => 64,
            GB..LARGE => 12,
            LARGE.. => 8,
        };
        let opened_max = limit / opened_part;
        Self {
            unread_results: limit / 32,
            block_cache: opened_max.min(GB),
            block_cache_max: opened_max,
            scans: ample(limit / 24),
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
            merge_blocks: ample(limit / 32),
            repair: part(64, 32 * MB),
            block: part(128, 16 * MB),
            queries: number(32 * MB, 16),
            answers: number(32 * MB, 64),
            followers: number(if limit < GB { 64 * MB } else { 32 * MB }, 256),
            served: number(8 * MB, 256),
            served_tails: number(16 * MB, 512),
            ingests: number(8 * MB, 32),
            http_connections: number(512 * KB, 8_192),
            line_connections: number(128 * KB, 10_000),
            blocking_threads: number(4 * MB, 128),
        }
    }

    /// The same with records of at most this length, in bytes: of longer ones fewer answers and followers have room.
    ///
    /// # Errors
    /// There is too little memory for such records.
    pub(super) fn with_record_bytes(self, bytes: u64, limit: &MemoryLimit) -> anyhow::Result<Self> {
        if bytes > self.record_max {
            bail!(
                "--max-record-bytes is {}, and the memory limit of {} ({}) has room for records of at most {}: lower \
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
        Ok(Self {
            answers: fewer(self.answers, ANSWER_BYTES),
            followers: fewer(self.followers, FOLLOWER_BYTES),
            ..self
        })
    }

    /// What an answer or a follower takes more with records of this length.
    fn extra_bytes(record_bytes: u64) -> u64 {
        record_bytes.saturating_sub(TYPICAL_RECORD_BYTES) * RECORDS_HELD
    }

    /// All parts together with records of this length, in bytes; those without a limit as what a few threads need.
    #[cfg(test)]
    fn sum(&self, record_bytes: u64) -> u64 {
        let scans = self.scans.min(GB / 2);
        let store = self.merge_input + self.queue_segment + self.merge_blocks.min(GB / 4) + self.repair;
        let more = Self::extra_bytes(record_bytes);
        BASE_BYTES
            + self.unread_results
            + self.block_cache_max
            + scans
            + self.automata
            + self.bodies
            + self.partial_lines * LINE_BUDGETS
            + self.unsynced
            + self.queue_index
            + self.store_index
            + self.store_index / 8
            + self.keys as u64 * KEY_BYTES
            + self.sections as u64 * SECTION_BYTES
            + store
            + self.block * ENCODE_FACTOR * ENCODERS
            + self.answers as u64 * (ANSWER_BYTES + more)
            + self.followers as u64 * (FOLLOWER_BYTES + more)
            + (self.served + self.served_tails) as u64 * SERVED
    }
}

/// The limit that holds, given what `--memory-limit` says. Refuses one with which the node would not work or be killed.
/// To be called first of all: the program may be started once more.
pub(super) fn limit(told: Option<ByteSize>) -> anyhow::Result<MemoryLimit> {
    let found = detect();
    let limit = decide(told.map(|size| size.0), found)?;
    #[cfg(target_os = "linux")]
    allocator::restart_for(limit.bytes);
    info!(limit = %human_bytes(limit.bytes), from = limit.origin, "memory");
    Ok(limit)
}

fn decide(told: Option<u64>, found: MemoryLimit) -> anyhow::Result<MemoryLimit> {
    let least = human_bytes(LIMIT_MIN_BYTES);
    if found.bytes < LIMIT_MIN_BYTES {
        bail!(
            "{} allows {}, and a node needs at least {least}: raise the limit of the container or service",
            found.origin,
            human_bytes(found.bytes)
        );
    }
    match told {
        None => Ok(found),
        Some(told) if told < LIMIT_MIN_BYTES => {
            bail!("--memory-limit is {}, and a node needs at least {least}: give it more", human_bytes(told))
        }
        Some(told) if told > found.bytes => bail!(
            "--memory-limit is {}, and {} allows {}: the kernel would kill a node that uses more; lower --memory-limit, or leave it out",
            human_bytes(told),
            found.origin,
            human_bytes(found.bytes)
        ),
        Some(told) => Ok(MemoryLimit { bytes: told, origin: "--memory-limit".to_owned() }),
    }
}

/// The least limit that this process has.
fn detect() -> MemoryLimit {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    let machine = MemoryLimit { bytes: system.total_memory(), origin: "the memory of the machine".to_owned() };
    // Where a machine does not tell, there is as much as any plan makes use of.
    let machine = if machine.bytes == 0 { MemoryLimit { bytes: 8 * GB, ..machine } } else { machine };
    let text = |path: &str| read(Path::new(path)).unwrap_or_default();
    let group = cgroup::limit(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"), read);
    let group = group.map(|limit| MemoryLimit { bytes: limit.bytes, origin: limit.file.display().to_string() });
    let space = getrlimit(Resource::As).current;
    let space =
        space.map(|bytes| MemoryLimit { bytes, origin: "the limit of the address space (ulimit -v)".to_owned() });
    [group, space]
        .into_iter()
        .flatten()
        .fold(machine, |least, limit| if limit.bytes < least.bytes { limit } else { least })
}

/// What to do when a store cannot be opened, where that is a matter of memory.
pub(super) fn explain_open_error(error: OpenError, limit: &MemoryLimit) -> anyhow::Error {
    let OpenError::Memory { dir, needed, max } = error else { return error.into() };
    // With that it accepts records, too.
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

/// Memory of the process that no file stands behind, in bytes; `None` where that cannot be told.
pub(super) fn used() -> Option<u64> {
    let status = read(Path::new("/proc/self/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * KB)
}

// The files of the kernel are those of no simulated machine.
fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_are_within_the_limit() {
        let check = |limit: u64| {
            let plan = MemoryPlan::for_limit(limit);
            assert!(
                plan.block >= MB && plan.record_max >= TYPICAL_RECORD_BYTES && plan.keys > 10_000,
                "{limit}: {plan:?}"
            );
            let from = MemoryLimit { bytes: limit, origin: "a test".to_owned() };
            for record in [1, TYPICAL_RECORD_BYTES, plan.record_max / 2, plan.record_max] {
                let plan = plan.with_record_bytes(record, &from).unwrap();
                assert!(plan.sum(record) <= limit - limit / KERNEL_PART, "{limit}: {} of {plan:?}", plan.sum(record));
                assert!(plan.queries > 1 && plan.answers > 1 && plan.followers > 0, "{limit}: {plan:?}");
            }
            // What unfinished lines may have has room for one, and so has what a body may.
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
    fn a_large_machine_has_all_that_is_of_use() {
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
            assert_eq!((plan.queries, plan.answers, plan.followers), (api.queries_max, api.answers_max, api.tails_max));
            assert_eq!((plan.served, plan.served_tails), (query.served_max, query.served_tails_max));
            assert_eq!((plan.ingests, plan.http_connections), (api.ingests_max, api.connections_max));
            assert_eq!((plan.line_connections, plan.blocking_threads), (sources.connections_max, 128));
        }
    }

    #[test]
    fn an_index_that_is_too_large_is_refused_with_the_limit_that_it_needs() {
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
                (Ok(plan), Ok(want)) => assert_eq!((plan.answers, plan.followers), want, "{limit} {record}"),
                (Err(error), Err(words)) => {
                    let said = error.to_string();
                    words.iter().for_each(|word| assert!(said.contains(word), "{word}: {said}"));
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
    fn a_limit_that_cannot_be_kept_is_refused() {
        let check = |told: Option<u64>, found: u64, want: Result<(u64, &str), &[&str]>| {
            let found = MemoryLimit { bytes: found, origin: "/a/memory.max".to_owned() };
            match (decide(told, found), want) {
                (Ok(limit), Ok((bytes, from))) => assert_eq!((limit.bytes, limit.origin.as_str()), (bytes, from)),
                (Err(error), Err(words)) => {
                    let said = error.to_string();
                    words.iter().for_each(|word| assert!(said.contains(word), "{word}: {said}"));
                }
                (got, want) => panic!("{told:?}: {got:?}, and not {want:?}"),
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
    fn this_process_has_a_limit_and_uses_some() {
        assert!(detect().bytes > 0);
        assert!(used().is_none_or(|bytes| bytes > 0));
    }
}
