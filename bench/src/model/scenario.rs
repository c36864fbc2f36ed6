//! What every comparison has in common: a prediction, and then a measurement of the same.

use std::time::Duration;

use super::planner::Planner;
use super::prediction::Predictions;
use crate::context::BenchContext;
use crate::results::Figure;

/// Something that is predicted and then measured.
pub(super) trait ModelScenario {
    /// Its name in tables and files, without a semicolon.
    fn name(&self) -> String;

    /// What the program predicts, and the load if it follows from a prediction.
    fn predict(&self, planner: &Planner) -> anyhow::Result<Vec<Figure>>;

    /// What is measured. The load may be one of the predictions.
    fn measure(&self, meter: &Meter<'_>, predicted: &Predictions) -> anyhow::Result<Vec<Figure>>;
}

/// What measurements have in common.
#[derive(Debug)]
pub(super) struct Meter<'a> {
    pub(super) context: &'a BenchContext,
    /// Text of which requests are made.
    pub(super) sample: Vec<u8>,
    /// Frequent words of it.
    pub(super) words: Vec<String>,
    /// The time until a steady state.
    pub(super) warm_up: Duration,
    /// The time that is measured.
    pub(super) time: Duration,
}
