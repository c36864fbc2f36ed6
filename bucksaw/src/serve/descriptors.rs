//! Divides the limit of open files (`RLIMIT_NOFILE`) between files and connections, so that clients cannot take the
//! descriptors that the queue needs to write.
//!
//! | share of the limit | for |
//! | --- | --- |
//! | 32 | the program itself |
//! | a quarter of the rest, or twice the number of stored segments and 64 if that is more | files |
//! | of the remainder two thirds | connections of the listeners for lines, at most three quarters of these to one of them |
//! | a quarter | HTTP connections |
//! | a twelfth | connections between nodes |
//!
//! While the node runs, [`DescriptorMonitor`] adapts the share of connections for lines to the number of files. If
//! files would take the other shares, nothing is accepted or fetched until compaction and retention have reduced them.
//! The same holds while the memory for the index of stored segments is used up.

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

/// Smallest limit with which a node starts.
const LIMIT_MIN: usize = 128;

/// Stands for no limit.
const LIMIT_MAX: usize = 1 << 20;

/// Descriptors of runtimes, listeners and the log.
const RESERVED: usize = 32;

/// Descriptors for short-lived files, such as the outputs of a merge: at most this number, and at most the limit
/// divided by `SPARE_SHARE`.
const SPARE: usize = 32;
const SPARE_SHARE: usize = 16;

/// Files in the data directory that are no segments.
const SMALL_FILES: usize = 8;

/// Interval of [`DescriptorMonitor`].
const POLL_PERIOD: Duration = Duration::from_millis(250);

/// Limits of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DescriptorShares {
    /// Of all listeners for lines.
    pub(super) lines: usize,
    /// Of one listener for lines.
    pub(super) lines_per_listener: usize,
    /// Of the HTTP listener.
    pub(super) http: usize,
    /// From other nodes.
    pub(super) cluster: usize,
}

/// Raises the limit of open files as far as allowed, and returns it.
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

/// Refuses a limit that is too low for the stored segments. Each is an open file.
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

/// Limit of committed queue segments that a start keeps: about as many as a busy node commits in one grace period.
pub(super) fn committed_kept_max(limit: usize) -> usize {
    (files_max(limit) / 4).min(256)
}

/// Limit of connections in their TLS handshake. They precede the connections of the shares.
pub(super) fn handshakes_max(limit: usize) -> usize {
    (limit / 32).clamp(8, 256)
}

/// The number of files that leaves enough descriptors for connections.
fn files_max(limit: usize) -> usize {
    limit.saturating_sub(RESERVED) / 4 * 3
}

/// Divides the limit, given the number of segments.
pub(super) fn shares(limit: usize, segments: usize) -> DescriptorShares {
    let rest = limit.saturating_sub(RESERVED);
    let wanted = segments.saturating_mul(2).saturating_add(64);
    let files = wanted.min(files_max(limit)).max(rest / 4);
    let connections = rest - files;
    let lines = connections / 3 * 2;
    // A fifth of these may be in a handshake.
    let cluster = (connections / 12 / 5 * 4).max(1);
    DescriptorShares { lines, lines_per_listener: lines / 4 * 3, http: connections / 4, cluster }
}

/// Limit of open files while `lines` connections for lines are open. It preserves the shares of other connections, and
/// the next start is not refused.
fn room(limit: usize, shares: DescriptorShares, lines: usize) -> usize {
    let nodes = shares.cluster + shares.cluster / 4 + 1;
    let used = RESERVED + shares.http + nodes + lines + SPARE.min(limit / SPARE_SHARE);
    limit.saturating_sub(used).min(files_max(limit).saturating_sub(SMALL_FILES))
}

/// Monitors the number of open files and the memory of the index of stored segments.
pub(super) struct DescriptorMonitor {
    pub(super) limit: usize,
    /// The shares at the start.
    pub(super) shares: DescriptorShares,
    pub(super) slots: ConnectionSlots,
    pub(super) queue: Arc<Queue>,
    pub(super) context: StoreContext,
}

impl DescriptorMonitor {
    /// Runs until dropped.
    pub(super) async fn run(self, tasks: Arc<dyn Tasks>) {
        let mut crowded = false;
        loop {
            tasks.sleep(POLL_PERIOD).await;
            let files = self.context.store.open_files() + self.queue.readable_segments().len();
            self.slots.limit(shares(self.limit, files).lines);
            let room = room(self.limit, self.shares, self.slots.in_use());
            // Hysteresis.
            crowded = files > if crowded { room - room / 16 } else { room };
            self.context.is_short_of_descriptors.store(crowded, Ordering::Relaxed);
            let halt = halt_reason(crowded, &*self.context.store);
            let queue = Arc::clone(&self.queue);
            // Reads from the disk.
            run_blocking(&tasks, move || queue.set_external_halt(halt)).await;
        }
    }
}

/// Why the queue must accept nothing. The store fetches nothing by itself while its memory is used up.
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
    fn open_files_preserve_other_shares_and_can_be_opened_at_a_start() {
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
    fn connections_preserve_the_share_of_files() {
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
