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

use std::path::Path;

use anyhow::bail;
use bucksaw_doors::Fs;
use rustix::process::{Resource, getrlimit, setrlimit};
use tracing::warn;

/// A node does not start with fewer.
const LEAST: usize = 128;

/// Where there is no limit.
const MOST: usize = 1 << 20;

/// Handles of the program itself: of its runtimes, of its listeners, and for the log.
const OWN: usize = 32;

/// Connections by class of listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// Of all listeners for lines together.
    pub(super) lines: usize,
    /// Of one listener for lines.
    pub(super) lines_each: usize,
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
    let limit = current.map_or(MOST, |current| usize::try_from(current).unwrap_or(MOST).min(MOST));
    if limit < LEAST {
        bail!(
            "the limit of open files is {limit}, and a node needs at least {LEAST}: raise it with `ulimit -n {LEAST}`, or LimitNOFILE in systemd"
        );
    }
    Ok(limit)
}

/// Refuses a limit of open files that is too low for what is stored: each segment is an open file.
pub(super) fn check(limit: usize, fs: &dyn Fs, data_dir: &Path) -> anyhow::Result<()> {
    let count = |dir: &str| fs.list(&data_dir.join(dir)).map_or(0, |names| names.len());
    let stored = count("shelf") + count("queue");
    if stored > files_max(limit) {
        let least = OWN + stored.saturating_mul(2).saturating_add(64) / 3 * 4;
        bail!(
            "the limit of open files is {limit}, and {stored} segments are stored in {}, each an open file: raise it to at least {least} with `ulimit -n {least}`, or LimitNOFILE in systemd",
            data_dir.display()
        );
    }
    Ok(())
}

/// The most files that leave handles for connections.
fn files_max(limit: usize) -> usize {
    limit.saturating_sub(OWN) / 4 * 3
}

/// Divides the descriptor limit among the listeners. `segments` is the number of stored segments; each is an open file.
pub(super) fn shares(limit: usize, segments: usize) -> Shares {
    let rest = limit.saturating_sub(OWN);
    let wanted = segments.saturating_mul(2).saturating_add(64);
    let files = wanted.min(files_max(limit)).max(rest / 4);
    let connections = rest - files;
    let lines = connections / 3 * 2;
    // A fifth of these may be handshakes that are not over.
    let cluster = (connections / 12 / 5 * 4).max(1);
    Shares { lines, lines_each: lines / 4 * 3, http: connections / 4, cluster }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_their_share() {
        let check = |limit: usize, segments: usize, want: (usize, usize, usize)| {
            let got = shares(limit, segments);
            assert_eq!((got.lines, got.lines_each, got.http), want, "{limit} {segments}");
            let nodes = got.cluster + got.cluster / 4;
            assert!(got.lines + got.http + nodes + OWN + limit / 5 <= limit, "{limit} {segments}");
        };
        check(LEAST, 0, (20, 15, 8));
        check(1_024, 0, (496, 372, 186));
        check(4_096, 0, (2_032, 1_524, 762));
        check(20_000, 0, (9_984, 7_488, 3_744));
        check(20_000, 4_000, (7_936, 5_952, 2_976));
        check(1_024, 100_000, (164, 123, 62));
        check(MOST, 0, (524_272, 393_204, 196_602));
    }
}
