//! Sizes derived from the size of the disk: the reserve, and the limits of segments.
//!
//! The store writes into the reserve while nothing is accepted, which drains the queue. A gather takes at most half of
//! the reserve and one more queue segment, so four queue segments in the reserve leave room for text that cannot be
//! compressed. Stored segments are removed whole, and exist twice while they are rewritten, so they are small beside
//! the disk.
//!
//! | disk | reserve | queue segment | stored segment |
//! | --- | --- | --- | --- |
//! | 32 MB, the smallest | 8 MB | 2 MB | 1 MB of text |
//! | 300 MB | 15 MB | 3.75 MB | 9.4 MB |
//! | 1.3 GB | 64 MB | 16 MB | 40 MB |
//! | 5 GB and more | 256 MB | 16 MB | 128 MB |

use std::path::Path;

use anyhow::bail;
use bucksaw_env::Env;

/// Smallest file system on which a new node starts.
const TOTAL_BYTES_MIN: u64 = 32 << 20;

/// The reserve is this part of the disk, within bounds.
const RESERVE_SHARE: u64 = 20;
const RESERVE_BYTES: std::ops::RangeInclusive<u64> = 8 << 20..=256 << 20;

/// Queue segments in the reserve.
const QUEUE_SEGMENTS: u64 = 4;

/// Stored segments on the disk, by their text.
const STORE_SEGMENTS: u64 = 32;

/// Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskSizes {
    /// Free space below which nothing is accepted.
    pub(super) reserve: u64,
    /// Limit of a queue segment.
    pub(super) queue_segment: u64,
    /// Limit of the text of a stored segment.
    pub(super) store_segment: u64,
}

impl DiskSizes {
    /// The sizes for the disk of a directory, or for a large disk if its size is unknown.
    pub(super) fn of(env: &Env, dir: &Path) -> Self {
        Self::of_total(env.fs.space(dir).map_or(u64::MAX, |space| space.total_bytes))
    }

    fn of_total(total: u64) -> Self {
        let reserve = (total / RESERVE_SHARE).clamp(*RESERVE_BYTES.start(), *RESERVE_BYTES.end());
        Self { reserve, queue_segment: reserve / QUEUE_SEGMENTS, store_segment: total / STORE_SEGMENTS }
    }
}

/// Refuses a directory on a disk that is too small for a new node.
pub(super) fn check(env: &Env, dir: &Path) -> anyhow::Result<()> {
    let Ok(space) = env.fs.space(dir) else { return Ok(()) };
    if space.total_bytes < TOTAL_BYTES_MIN {
        bail!(
            "the disk of the data directory {} has {} MB and a node needs at least {} MB: choose another with --data-dir",
            dir.display(),
            space.total_bytes >> 20,
            TOTAL_BYTES_MIN >> 20
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gather_fits_into_the_reserve() {
        for total in (TOTAL_BYTES_MIN..64 << 30).step_by(37 << 20).chain([u64::MAX]) {
            let DiskSizes { reserve, queue_segment, store_segment } = DiskSizes::of_total(total);
            // Half of the reserve and a segment, and a hundredth more for metadata.
            let gather = reserve / 2 + queue_segment;
            assert!(gather + gather / 100 < reserve, "{total}");
            assert!(reserve <= total / 4 && store_segment <= total / 32, "{total}");
        }
        let mb = 1 << 20;
        let check = |total: u64, reserve, queue_segment, store_segment| {
            let want = DiskSizes { reserve: reserve * mb, queue_segment: queue_segment * mb, store_segment };
            assert_eq!(DiskSizes::of_total(total * mb), want, "{total}");
        };
        check(32, 8, 2, mb);
        check(1_280, 64, 16, 40 * mb);
        check(1 << 20, 256, 64, (1 << 15) * mb);
    }
}
