//! `model`: predictions of `bucksaw plan` for twelve loads, and the same loads measured.
//!
//! `--predict FILE` writes the predictions, from the costs of a calibration, and measures nothing: the file is committed
//! before `--against FILE` measures. Nothing is fitted to the measurement.

mod load;
mod planned_load;
mod prediction;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};
use clap::Args;

use crate::context::BenchContext;
use crate::corpus::Corpus;
use crate::machine;
use crate::results::{BenchRun, Figure, figure};
use crate::search::frequent;
use crate::spread::percentile_ms;
use load::{TimedRequest, arrivals, send};
use planned_load::{PlannedLoad, QUESTIONS_PER_HOUR, RANGE, REQUEST_BYTES};
use prediction::COMPARED;

/// Bytes of the sample of lines that is sent again and again.
const SAMPLE_BYTES: u64 = 64 << 20;

/// The time until a steady state: longer than the range of a question.
const WARM_UP: Duration = Duration::from_secs(30);

/// Compare predictions of `bucksaw plan` with measurements
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// File of the lines to send; generated lines if omitted
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Costs for the predictions, from `bucksaw plan --sample FILE --save-calibration`
    #[arg(long, value_name = "FILE", requires = "predict")]
    calibration: Option<PathBuf>,

    /// Write predictions to this file, and measure nothing
    #[arg(long, value_name = "FILE", requires = "calibration", conflicts_with = "against")]
    predict: Option<PathBuf>,

    /// Measure, and compare with the predictions in this file
    #[arg(long, value_name = "FILE", required_unless_present = "predict")]
    against: Option<PathBuf>,

    /// Seconds to measure each load, after 30 s of the same load
    #[arg(long, value_name = "S", default_value_t = 60)]
    seconds: u64,
}

pub(crate) fn run(args: &ModelArgs, context: &BenchContext) -> anyhow::Result<()> {
    if let (Some(path), Some(calibration)) = (&args.predict, &args.calibration) {
        let predict = |scenario| Ok((scenario, prediction::predict(&context.bucksaw, calibration, scenario)?));
        let predictions = PlannedLoad::all().into_iter().map(predict).collect::<anyhow::Result<Vec<_>>>()?;
        return prediction::save(&predictions, path);
    }
    let Some(against) = &args.against else { return Ok(()) };
    let predicted = prediction::load(against)?;
    let mut results = context.results("model")?;
    for corpus in context.corpora(&args.files)?.iter().take(1) {
        for scenario in PlannedLoad::all() {
            eprintln!("{}", scenario.name());
            let load = machine::load();
            let measured = measure(context, corpus, scenario, Duration::from_secs(args.seconds))?;
            let mut figures = Vec::new();
            for (name, unit) in COMPARED {
                let Some(found) = measured.iter().find(|figure| figure.name == name) else { continue };
                let Some(want) = predicted.get(&(scenario.name(), name.to_owned())) else { continue };
                figures.push(figure(name, unit, found.value));
                figures.push(figure(predicted_name(name), unit, *want));
                figures.push(figure(ratio_name(name), "times", want / found.value));
            }
            results.runs.push(BenchRun { subject: scenario.name(), round: 1, load, figures });
        }
    }
    context.report_in_rows(&results)
}

fn predicted_name(name: &str) -> &'static str {
    match name {
        "cpu" => "cpu_predicted",
        "ack_mean" => "ack_mean_predicted",
        "ack_p99" => "ack_p99_predicted",
        "question_mean" => "question_mean_predicted",
        _ => "question_p99_predicted",
    }
}

fn ratio_name(name: &str) -> &'static str {
    match name {
        "cpu" => "cpu_ratio",
        "ack_mean" => "ack_mean_ratio",
        "ack_p99" => "ack_p99_ratio",
        "question_mean" => "question_mean_ratio",
        _ => "question_p99_ratio",
    }
}

fn measure(
    context: &BenchContext,
    corpus: &Corpus,
    scenario: PlannedLoad,
    time: Duration,
) -> anyhow::Result<Vec<Figure>> {
    let bodies = bodies(&corpus.sample(SAMPLE_BYTES)?, scenario.line_bytes);
    let bytes: usize = bodies.iter().map(Vec::len).sum();
    let mean_bytes = bytes as f64 / bodies.len() as f64;
    let node = context.node("node", &["--audit=false"])?;
    let end = WARM_UP + time;
    let requests = arrivals(scenario.bytes_per_second as f64 / mean_bytes, end, 1);
    let per_second = if scenario.has_questions { f64::from(QUESTIONS_PER_HOUR) / 3_600.0 } else { 1e-9 };
    let questions = arrivals(per_second, end, 2);
    let word = bucksaw_faults::http::encode(frequent(&corpus.path));
    let address = node.address("http")?;
    let started = (Instant::now(), WARM_UP);
    let (acks, answers, cpu) = thread::scope(|scope| {
        let sent = scope.spawn(|| {
            send(address, started, &requests, |at| TimedRequest {
                method: "POST",
                target: "/api/v1/ingest?durability=durable".to_owned(),
                body: bodies.get(at % bodies.len()).cloned().unwrap_or_default(),
            })
        });
        let asked = scope.spawn(|| {
            send(address, started, &questions, |_| TimedRequest {
                method: "GET",
                target: format!("/api/v1/count?q={word}&from={}s", RANGE.as_secs()),
                body: Vec::new(),
            })
        });
        thread::sleep(WARM_UP.saturating_sub(started.0.elapsed()));
        let before = (node.cpu()?, Instant::now());
        thread::sleep(end.saturating_sub(started.0.elapsed()));
        let cpu = (node.cpu()? - before.0) / before.1.elapsed().as_secs_f64();
        let join = |handle: thread::ScopedJoinHandle<'_, anyhow::Result<Vec<Duration>>>| {
            handle.join().map_err(|_| anyhow!("a sender panicked"))?
        };
        anyhow::Ok((join(sent)?, join(asked)?, cpu))
    })?;
    ensure!(!acks.is_empty(), "nothing was acknowledged");
    let dir = node.dir().to_owned();
    node.stop()?;
    context.clear(&dir)?;
    let mean = |times: &[Duration]| times.iter().map(Duration::as_secs_f64).sum::<f64>() * 1e3 / times.len() as f64;
    let mut figures = vec![
        figure("cpu", "cores", cpu),
        figure("ack_mean", "ms", mean(&acks)),
        figure("ack_p99", "ms", percentile_ms(&acks, 99.0)),
    ];
    if scenario.has_questions {
        figures.push(figure("question_mean", "ms", mean(&answers)));
        figures.push(figure("question_p99", "ms", percentile_ms(&answers, 99.0)));
    }
    Ok(figures)
}

/// Bodies of about [`REQUEST_BYTES`] with lines of exactly this length, made of the text of a sample.
fn bodies(sample: &[u8], line_bytes: u64) -> Vec<Vec<u8>> {
    let text: Vec<u8> = sample.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect();
    let lines_per_body = (REQUEST_BYTES / line_bytes).max(1) as usize;
    let lines: Vec<&[u8]> = text.chunks_exact(line_bytes as usize - 1).collect();
    lines.chunks_exact(lines_per_body).map(|lines| [lines.join(&b'\n'), b"\n".to_vec()].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_lines_of_one_length() {
        let sample = b"one two\nthree four five\n".repeat(20_000);
        for line_bytes in [150, 1_500] {
            let bodies = bodies(&sample, line_bytes);
            assert!(bodies.len() > 3);
            for body in bodies {
                assert!(body.split_inclusive(|byte| *byte == b'\n').all(|line| line.len() as u64 == line_bytes));
                assert!(body.len() as u64 <= REQUEST_BYTES && body.len() as u64 > REQUEST_BYTES - line_bytes);
            }
        }
    }
}
