//! One load on one node: what is predicted, and what is measured.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure};

use super::bodies::bodies;
use super::environment::NodeEnvironment;
use super::environment_node::EnvironmentNode;
use super::load::{LoadWindow, TimedRequest, arrivals, send};
use super::planned_load::{PlannedLoad, RANGE};
use super::planner::CapacityPlan;
use super::scenario::Meter;
use crate::results::{Figure, figure};
use crate::spread::percentile_ms;

/// What a plan says about the figures of a run.
pub(super) fn node_figures(plan: &CapacityPlan, load: PlannedLoad) -> anyhow::Result<Vec<Figure>> {
    let mut figures = vec![
        figure("cpu", "cores", plan.cpu()?),
        figure("ack_mean", "ms", plan.value("acknowledgement, mean")? * 1e3),
        figure("ack_p99", "ms", plan.value("acknowledgement, p99")? * 1e3),
    ];
    if load.questions_per_hour > 0 {
        figures.push(figure("question_mean", "ms", plan.question("mean_seconds")? * 1e3));
        figures.push(figure("question_p99", "ms", plan.question("p99_seconds")? * 1e3));
    }
    Ok(figures)
}

/// A load on a node that starts empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeRun<'a> {
    pub(super) environment: &'a NodeEnvironment,
    pub(super) load: PlannedLoad,
    /// The time until a steady state.
    pub(super) warm_up: Duration,
    /// The time that is measured.
    pub(super) time: Duration,
}

impl NodeRun<'_> {
    /// CPU of the node, and mean and 99th percentile of the times of requests and of questions.
    pub(super) fn measure(&self, meter: &Meter<'_>) -> anyhow::Result<Vec<Figure>> {
        let load = self.load;
        let bodies = bodies(&meter.sample, load.request_bytes, load.line_bytes);
        let bytes: usize = bodies.iter().map(Vec::len).sum();
        let mean_bytes = bytes as f64 / bodies.len() as f64;
        let limited = EnvironmentNode::start(meter.context, self.environment)?;
        let node = &limited.node;
        let end = self.warm_up + self.time;
        let requests = arrivals(load.bytes_per_second as f64 / mean_bytes, end, 1);
        let questions = match load.questions_per_hour {
            0 => Vec::new(),
            per_hour => arrivals(f64::from(per_hour) / 3_600.0, end, 2),
        };
        let words: Vec<String> = meter.words.iter().map(bucksaw_faults::http::encode).collect();
        let address = node.address("http")?;
        let window = LoadWindow { started: Instant::now(), from: self.warm_up, until: end };
        let (acks, answers, cpu) = thread::scope(|scope| {
            let sent = scope.spawn(|| {
                send(address, window, &requests, |at| TimedRequest {
                    method: "POST",
                    target: "/api/v1/ingest?durability=durable".to_owned(),
                    body: bodies.get(at % bodies.len()).cloned().unwrap_or_default(),
                })
            });
            let asked = scope.spawn(|| {
                send(address, window, &questions, |at| TimedRequest {
                    method: "GET",
                    target: format!("/api/v1/count?q={}&from={}s", words[at % words.len()], RANGE.as_secs()),
                    body: Vec::new(),
                })
            });
            thread::sleep(self.warm_up.saturating_sub(window.started.elapsed()));
            let before = (node.cpu()?, Instant::now());
            thread::sleep(end.saturating_sub(window.started.elapsed()));
            let cpu = (node.cpu()? - before.0) / before.1.elapsed().as_secs_f64();
            let join = |handle: thread::ScopedJoinHandle<'_, anyhow::Result<Vec<Duration>>>| {
                handle.join().map_err(|_| anyhow!("a sender panicked"))?
            };
            anyhow::Ok((join(sent)?, join(asked)?, cpu))
        })?;
        ensure!(!acks.is_empty(), "nothing was acknowledged");
        limited.stop(meter.context)?;
        let mut figures = vec![
            figure("cpu", "cores", cpu),
            figure("ack_mean", "ms", mean_ms(&acks)),
            figure("ack_p99", "ms", percentile_ms(&acks, 99.0)),
        ];
        if !questions.is_empty() {
            figures.push(figure("question_mean", "ms", mean_ms(&answers)));
            figures.push(figure("question_p99", "ms", percentile_ms(&answers, 99.0)));
        }
        Ok(figures)
    }
}

/// The mean in milliseconds; NaN if empty.
pub(super) fn mean_ms(times: &[Duration]) -> f64 {
    times.iter().map(Duration::as_secs_f64).sum::<f64>() * 1e3 / times.len() as f64
}
