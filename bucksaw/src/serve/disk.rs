//! What follows from the size of the disk: how much of it is kept free, and how large segments are.
//!
//! One rule for queue and store. The reserve is what the store writes into while nothing else is accepted, so that the
//! queue becomes smaller: a gathering takes at most half of it, and one segment of the queue more. So four segments of the
//! queue fit into the reserve, and even text that cannot be packed finds room. Segments of the store are removed whole, and
//! written anew while they are still there, so they are small beside the disk.
//!
//! | disk | reserve | segment of the queue | segment of the store |
//! | --- | --- | --- | --- |
//! | 32 MB, the smallest | 8 MB | 2 MB | 1 MB of text |
//! | 300 MB | 15 MB | 3.75 MB | 9.4 MB |
//! | 1.3 GB | 64 MB | 16 MB | 40 MB |
//! | 5 GB and more | 256 MB | 16 MB | 128 MB |

use std::path::Path;

use anyhow::bail;
use bucksaw_env::Env;

/// The smallest file system on which a new node is started.
const TOTAL_BYTES_MIN: u64 = 32 << 20;

/// The reserve is a twentieth of the disk, within these.
const RESERVE_SHARE: u64 = 20;
const RESERVE_BYTES: std::ops::RangeInclusive<u64> = 8 << 20..=256 << 20;

/// Segments of the queue in the reserve.
const QUEUE_SEGMENTS: u64 = 4;

/// Segments of the store on the disk, by their text.
const STORE_SEGMENTS: u64 = 32;

/// Sizes in bytes, by the size of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskSizes {
    /// What is kept free.
    pub(super) reserve: u64,
    /// The most that a segment of the queue has.
    pub(super) queue_segment: u64,
    /// The most text that a segment of the store has.
    pub(super) store_segment: u64,
}

impl DiskSizes {
    /// Those for the disk of a directory; where its size is not known, those for a large one.
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
    fn a_gathering_always_fits_into_the_reserve() {
        for total in (TOTAL_BYTES_MIN..64 << 30).step_by(37 << 20).chain([u64::MAX]) {
            let DiskSizes { reserve, queue_segment, store_segment } = DiskSizes::of_total(total);
            // Half of the room and a segment; a hundredth more for what lies beside the text.
            let most = reserve / 2 + queue_segment;
            assert!(most + most / 100 < reserve, "{total}");
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
