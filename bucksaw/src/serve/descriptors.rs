//! How many connections each listener may hold, derived from the limit of open files.
//!
//! Files, connections and the program's own handles share one limit of the process (`RLIMIT_NOFILE`). Connections that
//! used it up would leave none for the queue's files, and then nothing that clients sent could be written. So files have a
//! share that no connection may use.
//!
//! | share of the limit | for |
//! | --- | --- |
//! | 32 | handles of the program itself |
//! | a quarter of the rest, or twice the number of stored segments and 64 where that is more | files |
//! | of the remainder two thirds | connections of the listeners for lines, one of them at most three quarters of these |
//! | a quarter | HTTP connections |
//! | a twelfth | connections between nodes |
//!
//! The number of files grows while the node runs. [`Growth`] watches it: connections for lines get what their share would be
//! after a start. Where files would take what HTTP connections and those between nodes may use, nothing more is accepted or
//! taken from other nodes, until merges and retention have made the files fewer. It does the same while the memory for the
//! index of stored segments is used up.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::bail;
use bucksaw_env::{Fs, Tasks, run_blocking};
use bucksaw_ingest::{HaltReason, Queue};
use bucksaw_sources::ConnectionSlots;
use bucksaw_store::{Store, StoreContext};
use rustix::process::{Resource, getrlimit, setrlimit};
use tracing::warn;

/// A node does not start with fewer.
const LIMIT_MIN: usize = 128;

/// Where there is no limit.
const LIMIT_MAX: usize = 1 << 20;

/// Handles of the program itself: of its runtimes, of its listeners, and for the log.
const RESERVED: usize = 32;

/// Descriptors that stay free for what comes and goes: the files of a merge, or of an answer to a client. At most, and as a
/// part of the limit.
const SPARE: usize = 32;
const SPARE_SHARE: usize = 16;

/// Files that are no segments, and count at the next start.
const SMALL_FILES: usize = 8;

/// How often the number of files is looked at.
const POLL_PERIOD: Duration = Duration::from_millis(250);

/// Connections by class of listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DescriptorShares {
    /// Of all listeners for lines together.
    pub(super) lines: usize,
    /// Of one listener for lines.
    pub(super) lines_per_listener: usize,
    /// Of the HTTP listener.
    pub(super) http: usize,
    /// From other nodes.
    pub(super) cluster: usize,
}

/// Raises the limit of open files as far as the process may, and returns it.
pub(super) fn raise_limit() -> anyhow::Result<usize> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        warn!(%error, "cannot raise the limit of open files");
    }
    let current = getrlimit(Resource::Nofile).current;
    let limit = current.map_or(LIMIT_MAX, |current| usize::try_from(current).unwrap_or(LIMIT_MAX).min(LIMIT_MAX));
    if limit < LIMIT_MIN {
        bail!(
            "the limit of open files is {limit}, and a node needs at least {LIMIT_MIN}: raise it with `ulimit -n {LIMIT_MIN}`, or LimitNOFILE in systemd"
        );
    }
    Ok(limit)
}

/// Refuses a limit of open files that is too low for what is stored: each segment is an open file.
pub(super) fn check(limit: usize, fs: &dyn Fs, data_dir: &Path) -> anyhow::Result<()> {
    let list = |dir: &str| fs.list(&data_dir.join(dir)).unwrap_or_default();
    let (queue, store) = (list("queue"), list("store").len());
    let committed = queue.iter().filter(|name| name.ends_with(".committed")).count();
    let stored = store + queue.len() - committed.saturating_sub(committed_kept_max(limit));
    if stored > files_max(limit) {
        let least = RESERVED + stored.saturating_mul(2).saturating_add(64) / 3 * 4;
        bail!(
            "the limit of open files is {limit}, and {stored} segments are stored in {}, each an open file: raise it to at least {least} with `ulimit -n {least}`, or LimitNOFILE in systemd",
            data_dir.display()
        );
    }
    Ok(())
}

/// How many committed segments of the queue a start keeps, at most: about the number of one grace period on a busy node.
pub(super) fn committed_kept_max(limit: usize) -> usize {
    (files_max(limit) / 4).min(256)
}

/// The most files that leave handles for connections.
fn files_max(limit: usize) -> usize {
    limit.saturating_sub(RESERVED) / 4 * 3
}

/// Divides the descriptor limit among the listeners. `segments` is the number of stored segments; each is an open file.
pub(super) fn shares(limit: usize, segments: usize) -> DescriptorShares {
    let rest = limit.saturating_sub(RESERVED);
    let wanted = segments.saturating_mul(2).saturating_add(64);
    let files = wanted.min(files_max(limit)).max(rest / 4);
    let connections = rest - files;
    let lines = connections / 3 * 2;
    // A fifth of these may be handshakes that are not over.
    let cluster = (connections / 12 / 5 * 4).max(1);
    DescriptorShares { lines, lines_per_listener: lines / 4 * 3, http: connections / 4, cluster }
}

/// Maximum number of open files while `lines` connections for lines are open. It leaves free the shares of HTTP connections
/// and of connections between nodes, and the next start is not refused.
fn room(limit: usize, shares: DescriptorShares, lines: usize) -> usize {
    let nodes = shares.cluster + shares.cluster / 4 + 1;
    let used = RESERVED + shares.http + nodes + lines + SPARE.min(limit / SPARE_SHARE);
    limit.saturating_sub(used).min(files_max(limit).saturating_sub(SMALL_FILES))
}

/// Watches how many files are open, and how much memory the index of stored segments takes.
pub(super) struct DescriptorMonitor {
    pub(super) limit: usize,
    /// As they were at the start.
    pub(super) shares: DescriptorShares,
    pub(super) slots: ConnectionSlots,
    pub(super) queue: Arc<Queue>,
    pub(super) context: StoreContext,
}

impl DescriptorMonitor {
    /// Watches until it is dropped.
    pub(super) async fn run(self, tasks: Arc<dyn Tasks>) {
        let mut crowded = false;
        loop {
            tasks.sleep(POLL_PERIOD).await;
            let files = self.context.store.open_files() + self.queue.readable_segments().len();
            self.slots.limit(shares(self.limit, files).lines);
            let room = room(self.limit, self.shares, self.slots.in_use());
            // A little more room is wanted to begin again than to go on.
            crowded = files > if crowded { room - room / 16 } else { room };
            self.context.is_short_of_descriptors.store(crowded, Ordering::Relaxed);
            let halt = halt_reason(crowded, &*self.context.store);
            let queue = Arc::clone(&self.queue);
            // Reads from the disk.
            run_blocking(&tasks, move || queue.set_external_halt(halt)).await;
        }
    }
}

/// Why the queue is to accept nothing. The store takes nothing by itself while its memory is used up.
fn halt_reason(crowded: bool, store: &dyn Store) -> Option<HaltReason> {
    if crowded {
        return Some(HaltReason::Descriptors);
    }
    store.is_full().then(|| HaltReason::StoreIndexFull(store.status().index_bytes_max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_leave_other_shares_alone_and_can_be_opened_again() {
        for limit in [LIMIT_MIN, 256, 1_024, 4_096, 20_000, LIMIT_MAX] {
            for stored in [0, limit / 8, limit / 4, files_max(limit)] {
                let shares = shares(limit, stored);
                for lines in [0, shares.lines] {
                    let room = room(limit, shares, lines);
                    assert!(room + RESERVED + shares.http + shares.cluster + lines < limit, "{limit} {stored} {lines}");
                    assert!(room < files_max(limit), "{limit}: the next start is refused");
                    assert!(lines > 0 || room >= limit / 2, "{limit} {stored} {lines}: {room}");
                }
            }
        }
    }

    #[test]
    fn files_keep_their_share() {
        let check = |limit: usize, segments: usize, want: (usize, usize, usize)| {
            let got = shares(limit, segments);
            assert_eq!((got.lines, got.lines_per_listener, got.http), want, "{limit} {segments}");
            let nodes = got.cluster + got.cluster / 4;
            assert!(got.lines + got.http + nodes + RESERVED + limit / 5 <= limit, "{limit} {segments}");
        };
        check(LIMIT_MIN, 0, (20, 15, 8));
        check(1_024, 0, (496, 372, 186));
        check(4_096, 0, (2_032, 1_524, 762));
        check(20_000, 0, (9_984, 7_488, 3_744));
        check(20_000, 4_000, (7_936, 5_952, 2_976));
        check(1_024, 100_000, (164, 123, 62));
        check(LIMIT_MAX, 0, (524_272, 393_204, 196_602));
    }
}
