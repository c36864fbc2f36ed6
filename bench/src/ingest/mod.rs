//! `ingest`: the speed and cost of ingest.
//!
//! Each round runs every subject once, so that other load of the machine affects all of them. Ratios to the rival are
//! computed within a round.

mod bucksaw;
mod socat;

use clap::{Args, ValueEnum};

use crate::context::BenchContext;
use crate::machine;
use crate::results::{BenchRun, SPEED, figure};

/// Measure the speed and the cost of ingest
#[derive(Debug, Args)]
pub(crate) struct IngestArgs {
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Subjects, repeatable or separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["tcp-fast", "http-durable", "forward", "socat"])]
    subjects: Vec<Subject>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// One connection to the listener `fast`
    TcpFast,
    /// Bodies of 1 MB over four connections, each synced before it is answered
    HttpDurable,
    /// `bucksaw forward` to the listener `fast`
    Forward,
    /// `socat` from a socket to a file
    Socat,
    /// `socat` with a buffer of 256 KiB instead of its default of 8 KiB
    SocatLarge,
}

impl Subject {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

pub(crate) fn run(args: &IngestArgs, context: &BenchContext) -> anyhow::Result<()> {
    let mut subjects = args.subjects.clone();
    let rivals = [Subject::Socat, Subject::SocatLarge];
    if subjects.iter().any(|subject| rivals.contains(subject)) && !socat::is_installed() {
        eprintln!("socat is not installed and is skipped; to compare with it, run 'apt-get install socat'");
        subjects.retain(|subject| !rivals.contains(subject));
    }
    let corpus = context.corpus()?;
    let mut results = context.results("ingest")?.with_corpus(&corpus);
    for round in 1..=args.rounds as usize {
        for subject in &subjects {
            let load = machine::load();
            let figures = match subject {
                Subject::TcpFast => bucksaw::run(context, &corpus, bucksaw::tcp_fast)?,
                Subject::HttpDurable => bucksaw::run(context, &corpus, bucksaw::http_durable)?,
                Subject::Forward => bucksaw::run(context, &corpus, bucksaw::forward)?,
                Subject::Socat => socat::run(context, &corpus, None)?,
                Subject::SocatLarge => socat::run(context, &corpus, Some(256 << 10))?,
            };
            let run = BenchRun { subject: subject.name(), round, load, figures };
            let speed = run.value(SPEED).unwrap_or(f64::NAN);
            eprintln!("round {round} of {}: {} {speed:.0} MB/s (load {load:.1})", args.rounds, run.subject);
            results.runs.push(run);
        }
    }
    add_ratios(&mut results.runs);
    context.report(&results)
}

/// Adds the speed relative to the rival in the same round to each run.
fn add_ratios(runs: &mut [BenchRun]) {
    let rival = Subject::Socat.name();
    let speeds: Vec<(usize, f64)> =
        runs.iter().filter(|run| run.subject == rival).filter_map(|run| Some((run.round, run.value(SPEED)?))).collect();
    for run in runs {
        let rival = speeds.iter().find(|(round, _)| *round == run.round);
        if let (Some((_, rival)), Some(speed)) = (rival, run.value(SPEED)) {
            run.figures.push(figure("speed_against_socat", "ratio", speed / rival));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_within_a_round() {
        let run = |subject: &str, round, speed| BenchRun {
            subject: subject.into(),
            round,
            load: 0.0,
            figures: vec![figure(SPEED, "MB/s", speed)],
        };
        let mut runs =
            [run("tcp-fast", 1, 50.0), run("socat", 1, 100.0), run("tcp-fast", 2, 90.0), run("socat", 2, 60.0)];
        add_ratios(&mut runs);
        let ratios: Vec<Option<f64>> = runs.iter().map(|run| run.value("speed_against_socat")).collect();
        assert_eq!(ratios, [Some(0.5), Some(1.0), Some(1.5), Some(1.0)]);
    }
}
