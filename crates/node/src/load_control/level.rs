//! A level that follows signs slowly: up after some seconds, down after more.
//!
//! Invariant: it rises at the earliest [`RISE`] seconds after it last changed, and falls at the earliest [`FALL`] seconds
//! after it last changed. So it goes up and down again no more often than once in `RISE + FALL` seconds.

/// So many seconds, one after the other, the signs must be worse before the level rises.
pub const RISE_SECONDS: u32 = 3;

/// So many seconds, one after the other, they must be better before it falls.
pub const FALL_SECONDS: u32 = 15;

/// What the signs of one second justify.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelBounds {
    /// The level that their upper bounds justify.
    pub rise_to: u8,
    /// The level that their lower bounds justify; no lower than the other.
    pub hold_at: u8,
}

/// The level.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadLevel {
    level: u8,
    /// Seconds in which the signs were worse, and the least of them.
    above: (u32, u8),
    /// Seconds in which they were better, and the worst of them.
    below: (u32, u8),
}

impl LoadLevel {
    /// Takes the signs of another second; returns the level.
    pub fn step(&mut self, signs: LevelBounds) -> u8 {
        let LevelBounds { rise_to: rises_to, hold_at: holds } = signs;
        self.above = match self.above {
            _ if rises_to <= self.level => (0, 0),
            (0, _) => (1, rises_to),
            (seconds, least) => (seconds + 1, least.min(rises_to)),
        };
        self.below = match self.below {
            _ if holds >= self.level => (0, 0),
            (seconds, worst) => (seconds + 1, worst.max(holds)),
        };
        let next = match (self.above, self.below) {
            ((RISE_SECONDS.., least), _) => least,
            (_, (FALL_SECONDS.., worst)) => worst,
            _ => return self.level,
        };
        *self = Self { level: next, ..Self::default() };
        next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn levels(signs: &[(u32, u8, u8)]) -> Vec<u8> {
        let mut level = LoadLevel::default();
        let seconds = signs.iter().flat_map(|&(seconds, rises_to, holds)| (0..seconds).map(move |_| (rises_to, holds)));
        seconds.map(|(rises_to, holds)| level.step(LevelBounds { rise_to: rises_to, hold_at: holds })).collect()
    }

    #[test]
    fn it_rises_soon_and_falls_late() {
        let check = |signs: &[(u32, u8, u8)], want: u8| {
            assert_eq!(levels(signs).last(), Some(&want), "{signs:?}");
        };
        check(&[(2, 3, 3)], 0);
        check(&[(3, 3, 3)], 3);
        // A lull begins anew; the least of three seconds counts.
        check(&[(2, 3, 3), (1, 0, 3), (2, 3, 3)], 0);
        check(&[(1, 1, 1), (1, 2, 3), (1, 3, 3)], 1);
        // Between the bounds nothing moves.
        check(&[(3, 2, 2), (1_000, 0, 2)], 2);
        check(&[(3, 2, 2), (14, 0, 0)], 2);
        check(&[(3, 2, 2), (15, 0, 0)], 0);
        check(&[(3, 2, 2), (14, 0, 0), (1, 0, 2), (14, 0, 0)], 2);
        // To the worst of the seconds.
        check(&[(3, 3, 3), (10, 0, 0), (1, 0, 2), (4, 0, 1)], 2);
    }

    proptest! {
        #[test]
        fn it_never_flaps_faster_than_stated(
            runs in prop::collection::vec((1_u32..25, 0_u8..4, 0_u8..4), 1..60),
        ) {
            let mut level = LoadLevel::default();
            let (mut before, mut changed_at, mut second) = (0, None, 0_u32);
            let mut rises = Vec::new();
            let mut seen: Vec<LevelBounds> = Vec::new();
            for (seconds, rise_to, more) in runs {
                for _ in 0..seconds {
                    let bounds = LevelBounds { rise_to, hold_at: (rise_to + more).min(3) };
                    seen.push(bounds);
                    let now = level.step(bounds);
                    second += 1;
                    prop_assert!(now <= 3);
                    if now == before {
                        continue;
                    }
                    let apart = second - changed_at.unwrap_or(0);
                    let (least, rose) = if now > before { (RISE_SECONDS, true) } else { (FALL_SECONDS, false) };
                    prop_assert!(apart >= least, "{before} to {now} after {apart} s");
                    // All seconds of that time said so.
                    let of = &seen[seen.len() - least as usize..];
                    prop_assert!(!rose || of.iter().all(|signs| signs.rise_to >= now));
                    prop_assert!(rose || of.iter().all(|signs| signs.hold_at <= now));
                    if rose && before == 0 {
                        rises.push(second);
                    }
                    (before, changed_at) = (now, Some(second));
                }
            }
            prop_assert!(rises.windows(2).all(|pair| pair[1] - pair[0] >= RISE_SECONDS + FALL_SECONDS), "{rises:?}");
        }
    }
}
