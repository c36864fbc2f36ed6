//! What is to go wrong with one call, drawn when it is made.

use std::time::Duration;

use super::weather::Weather;
use crate::sim::Entropy;

/// Where a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing was sent.
    Connect,
    /// Its body is under way.
    Request,
    /// It was answered, and nothing of that was sent.
    Reply,
    /// The answer is under way.
    Answer,
}

/// Bodies break behind at most so many pieces, or at their end if that comes before.
const PIECES: usize = 6;

#[derive(Clone, Debug)]
pub(super) struct Flaw {
    stage: Stage,
    pieces: usize,
    /// For how long it stops; without that it breaks.
    pub(super) stall: Option<Duration>,
}

impl Flaw {
    pub(super) fn draw(dice: &Entropy, weather: &Weather, stages: [Stage; 2]) -> Option<Self> {
        let breaks = dice.chance(weather.breaks);
        if !breaks && !dice.chance(weather.stalls) {
            return None;
        }
        let stall = if breaks { None } else { Some(weather.stall.draw(dice)) };
        let [first, second] = stages;
        Some(Self { stage: if dice.one_in(2) { first } else { second }, pieces: dice.below(PIECES), stall })
    }

    /// Whether it does so now, with so many pieces gone over, and before the last.
    pub(super) fn strikes(&self, stage: Stage, pieces: usize, last: bool) -> bool {
        self.stage == stage && (pieces == self.pieces || (last && pieces < self.pieces))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flaw_strikes_once_however_long_the_body() {
        for seed in 0..100 {
            let dice = Entropy::seeded(seed);
            let weather = Weather { breaks: 1.0, ..Weather::CALM };
            let flaw = Flaw::draw(&dice, &weather, [Stage::Request, Stage::Request]).unwrap();
            for last in 0..20 {
                let strikes = (0..=last).filter(|piece| flaw.strikes(Stage::Request, *piece, *piece == last));
                assert_eq!(strikes.count(), 1, "{flaw:?} {last}");
                assert!(!flaw.strikes(Stage::Answer, last, true));
            }
        }
    }

    #[test]
    fn calm_weather_draws_none() {
        let dice = Entropy::seeded(1);
        assert!((0..1_000).all(|_| Flaw::draw(&dice, &Weather::CALM, [Stage::Reply, Stage::Answer]).is_none()));
    }
}
