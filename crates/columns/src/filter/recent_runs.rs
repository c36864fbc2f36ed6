//! Remembers recent runs, so that the grams of a recurring run are added once.

/// The longest remembered run, in bytes, and the number of slots: few enough to stay in a core's cache.
pub(super) const RECENT_RUN_BYTES_MAX: usize = 31;
pub(super) const RECENT_SLOTS: usize = 8_192;

/// A run of four bytes or more in 32 bytes: its first and its last bytes. The two halves meet, so the first byte of the second
/// half is known and the length takes its place. `None` if the run is too long.
#[inline]
pub(super) fn run_key(run: &[u8]) -> Option<(u128, u128)> {
    let (first, last) = match (run.first_chunk::<16>(), run.last_chunk::<16>()) {
        (Some(first), Some(last)) => (u128::from_le_bytes(*first), u128::from_le_bytes(*last)),
        _ => match (run.first_chunk::<8>(), run.last_chunk::<8>()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first).into(), u64::from_le_bytes(*last).into()),
            _ => {
                let (first, last) = (run.first_chunk::<4>()?, run.last_chunk::<4>()?);
                (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into())
            }
        },
    };
    (run.len() <= RECENT_RUN_BYTES_MAX).then_some((first, last & !0xff | run.len() as u128))
}

/// A direct-mapped cache of recent runs: a run replaces another one in its slot.
#[derive(Debug)]
pub(super) struct RecentRuns(Vec<(u128, u128)>);

impl RecentRuns {
    pub(super) fn new() -> Self {
        Self(vec![(0, 0); RECENT_SLOTS])
    }

    pub(super) fn clear(&mut self) {
        self.0.fill((0, 0));
    }

    /// Whether the run is remembered; remembers it unless it is too long.
    #[inline]
    pub(super) fn contains_or_insert(&mut self, run: &[u8]) -> bool {
        let Some(key) = run_key(run) else { return false };
        let halves = |ends: u128| ends as u64 ^ (ends >> 64) as u64;
        let mixed = halves(key.0).rotate_left(32) ^ halves(key.1);
        let place = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - RECENT_SLOTS.ilog2());
        std::mem::replace(&mut self.0[place as usize], key) == key
    }
}
