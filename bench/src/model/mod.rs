//! `model`: predictions of `bucksaw plan`, and the same loads measured.
//!
//! `--predict FILE` writes the predictions, from the costs of a calibration, and measures nothing: the file is committed
//! before `--against FILE` measures. Nothing is fitted to the measurement.
//!
//! | experiment | what is predicted and measured |
//! | --- | --- |
//! | [`twelve_loads`] | twelve loads on a node of this machine |
//! | [`environments`] | loads on nodes with less CPU, slower disks, and slower calls of the system |
//! | [`knees`] | the load at which a mean time is twice that of an idle node |
//! | [`fleet`] | 8 forwarders, 3 ingest nodes and 3 stores |

mod bodies;
mod compared;
mod environment;
mod environment_node;
mod environments;
mod fleet;
mod fleet_load;
mod fleet_probe;
mod fleet_sender;
mod fleet_totals;
mod frequent_words;
mod knee_search;
mod knees;
mod load;
mod node_run;
mod planned_load;
mod planner;
mod prediction;
mod scenario;
mod twelve_loads;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum};

use crate::context::BenchContext;
use crate::machine;
use crate::results::BenchRun;
use planner::Planner;
use prediction::Predictions;
use scenario::{Meter, ModelScenario};

/// Bytes of the sample of lines that is sent again and again.
const SAMPLE_BYTES: u64 = 64 << 20;

/// Compare predictions of `bucksaw plan` with measurements
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// File of the lines to send; generated lines if omitted
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// What is predicted and measured
    #[arg(long, value_name = "NAME", value_enum, default_value = "loads")]
    experiment: ModelExperiment,

    /// Only the scenarios whose names contain this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,

    /// Costs for the predictions, from `bucksaw plan --sample FILE --save-calibration`
    #[arg(long, value_name = "FILE", requires = "predict")]
    calibration: Option<PathBuf>,

    /// Write predictions to this file, and measure nothing
    #[arg(long, value_name = "FILE", requires = "calibration", conflicts_with = "against")]
    predict: Option<PathBuf>,

    /// Measure, and compare with the predictions in this file
    #[arg(long, value_name = "FILE", required_unless_present = "predict")]
    against: Option<PathBuf>,

    /// Seconds to measure each load, after --warm-up of the same load; at most 20 for each rate of knees
    #[arg(long, value_name = "S", default_value_t = 60)]
    seconds: u64,

    /// Seconds until a steady state: longer than the 20 s that a question searches; at most 30 for knees
    #[arg(long, value_name = "S", default_value_t = 30)]
    warm_up: u64,
}

/// What is predicted and measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModelExperiment {
    /// Twelve loads on a node of this machine
    Loads,
    /// Loads on nodes with a CPU quota, a throttled disk, or delayed syncs and reads; needs root, and a C compiler
    Environments,
    /// The load at which a mean time is twice that of an idle node; needs root
    Knees,
    /// 8 forwarders, 3 ingest nodes and 3 stores as processes
    Fleet,
}

impl ModelExperiment {
    fn scenarios(self) -> Vec<Box<dyn ModelScenario>> {
        match self {
            Self::Loads => twelve_loads::scenarios(),
            Self::Environments => environments::scenarios(),
            Self::Knees => knees::scenarios(),
            Self::Fleet => fleet::scenarios(),
        }
    }

    /// The name of the results.
    const fn results(self) -> &'static str {
        match self {
            Self::Loads => "model",
            Self::Environments => "model-environments",
            Self::Knees => "model-knees",
            Self::Fleet => "model-fleet",
        }
    }
}

pub(crate) fn run(args: &ModelArgs, context: &BenchContext) -> anyhow::Result<()> {
    let mut scenarios = args.experiment.scenarios();
    scenarios.retain(|scenario| scenario.name().contains(&args.only));
    ensure!(!scenarios.is_empty(), "no scenario has '{}' in its name", args.only);
    if let (Some(path), Some(calibration)) = (&args.predict, &args.calibration) {
        let planner = Planner::new(&context.bucksaw, calibration)?;
        let mut predictions = Vec::new();
        for scenario in &scenarios {
            let name = scenario.name();
            let figures = scenario.predict(&planner).with_context(|| format!("no prediction of '{name}'"))?;
            predictions.push((name, figures));
        }
        return prediction::save(&predictions, path);
    }
    let Some(against) = &args.against else { return Ok(()) };
    measure(args, context, &scenarios, against)
}

/// Measures all scenarios. One that fails does not end the others; then the program fails at the end.
fn measure(
    args: &ModelArgs,
    context: &BenchContext,
    scenarios: &[Box<dyn ModelScenario>],
    against: &Path,
) -> anyhow::Result<()> {
    let predicted = Predictions::load(against)?;
    let corpora = context.corpora(args.files.get(..1).unwrap_or_default())?;
    let corpus = corpora.first().context("there is no text")?;
    let sample = corpus.sample(SAMPLE_BYTES)?;
    let words = frequent_words::frequent_words(&sample);
    ensure!(!words.is_empty(), "the text has no word");
    eprintln!("questions count one of these in turn: {}", words.join(", "));
    let meter = Meter {
        context,
        sample,
        words,
        warm_up: Duration::from_secs(args.warm_up),
        time: Duration::from_secs(args.seconds),
    };
    let mut results = context.results(args.experiment.results())?.with_corpus(corpus);
    let mut failed = Vec::new();
    for scenario in scenarios {
        let name = scenario.name();
        eprintln!("{name}");
        let load = machine::load();
        match scenario.measure(&meter, &predicted) {
            Ok(measured) => {
                let figures = compared::beside(&measured, |figure| predicted.get(&name, figure));
                results.runs.push(BenchRun { subject: name, round: 1, load, figures });
            }
            Err(error) => {
                eprintln!("    {error:#}");
                failed.push(name);
            }
        }
    }
    context.report_in_rows(&results)?;
    ensure!(failed.is_empty(), "not measured: {}", failed.join("; "));
    Ok(())
}
