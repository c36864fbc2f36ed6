//! How the fleet is doing: mostly well, and badly for a few seconds now and then.
//!
//! Trouble is scheduled by time and not by number of lines, so that it shows as a peak in a histogram at any rate.

use crate::rng::Rng;

/// Milliseconds of quiet between two spells of trouble: from this, to this and [`QUIET_MS_SPREAD`] more.
const QUIET_MS_MIN: u64 = 30_000;
const QUIET_MS_SPREAD: u32 = 90_000;
/// Milliseconds that a spell of trouble lasts: from this, to this and [`TROUBLE_MS_SPREAD`] more.
const TROUBLE_MS_MIN: u64 = 500;
const TROUBLE_MS_SPREAD: u32 = 5_000;

/// How grave a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }

    /// In capitals and five wide.
    pub(crate) fn column(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO ",
            Self::Warn => "WARN ",
            Self::Error => "ERROR",
        }
    }
}

/// Decides the level of each line.
#[derive(Clone, Debug)]
pub(crate) struct Mood {
    trouble_from: u64,
    trouble_until: u64,
    culprit: u32,
}

impl Mood {
    pub(crate) fn new(rng: &mut Rng, start: u64) -> Self {
        let mut mood = Self { trouble_from: 0, trouble_until: 0, culprit: 0 };
        mood.plan(rng, start);
        mood
    }

    /// Moves to the time of the next line.
    pub(crate) fn set(&mut self, rng: &mut Rng, unix_ms: u64) {
        if unix_ms >= self.trouble_until {
            self.plan(rng, unix_ms);
        }
    }

    /// In trouble, a number that stays the same for this spell and says which service it is that fails.
    pub(crate) fn culprit(&self, unix_ms: u64) -> Option<u32> {
        (self.trouble_from..self.trouble_until).contains(&unix_ms).then_some(self.culprit)
    }

    /// A level by chance, graver in trouble. Together with the troubles, errors come to about four in a hundred.
    pub(crate) fn level(rng: &mut Rng, trouble: bool) -> Level {
        let (errors, warnings) = if trouble { (350, 150) } else { (30, 78) };
        match rng.below(1_000) {
            draw if draw < errors => Level::Error,
            draw if draw < errors + warnings => Level::Warn,
            draw if draw < errors + warnings + 30 => Level::Debug,
            _ => Level::Info,
        }
    }

    /// The next spell is planned from now on and not from the last one, so that a leap in time costs nothing.
    fn plan(&mut self, rng: &mut Rng, now: u64) {
        self.trouble_from = now.saturating_add(QUIET_MS_MIN + u64::from(rng.below(QUIET_MS_SPREAD)));
        let lasts = TROUBLE_MS_MIN + u64::from(rng.below(TROUBLE_MS_SPREAD));
        self.trouble_until = self.trouble_from.saturating_add(lasts);
        self.culprit = rng.below(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_their_shares_and_errors_their_peaks() {
        let mut rng = Rng::new(5);
        let mut mood = Mood::new(&mut rng, 0);
        let mut shares = [0u32; 4];
        let mut per_second = vec![0u32; 10_000];
        for ms in 0..10_000_000u64 {
            mood.set(&mut rng, ms);
            let trouble = mood.culprit(ms).is_some();
            let level = Mood::level(&mut rng, trouble);
            shares[level as usize] += 1;
            per_second[ms as usize / 1_000] += u32::from(level == Level::Error);
        }
        let [debug, info, warn, error] = shares.map(|lines| f64::from(lines) / 100_000.0);
        assert!((2.5..3.5).contains(&debug), "{debug}");
        assert!((83.0..88.0).contains(&info), "{info}");
        assert!((7.0..9.0).contains(&warn), "{warn}");
        assert!((3.2..5.0).contains(&error), "{error}");
        let peaks = per_second.iter().filter(|&&errors| errors > 250).count();
        assert!((100..1_000).contains(&peaks), "{peaks} seconds of trouble in 10,000");
    }

    #[test]
    fn leaps_in_time_are_cheap() {
        let mut rng = Rng::new(5);
        let mut mood = Mood::new(&mut rng, 1_000_000);
        for ms in [u64::MAX, 0, u64::MAX - 1, 5, u64::MAX] {
            mood.set(&mut rng, ms);
            mood.culprit(ms);
        }
    }
}
