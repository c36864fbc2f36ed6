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
use crate::node::sum;
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
        let (acks, answers, (cpu, syncs)) = thread::scope(|scope| {
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
            let (before, syncs_before) = ((node.cpu()?, Instant::now()), SyncCounts::of(&node.metrics()?));
            thread::sleep(end.saturating_sub(window.started.elapsed()));
            let cpu = (node.cpu()? - before.0) / before.1.elapsed().as_secs_f64();
            let syncs = SyncCounts::of(&node.metrics()?).since(syncs_before);
            let join = |handle: thread::ScopedJoinHandle<'_, anyhow::Result<Vec<Duration>>>| {
                handle.join().map_err(|_| anyhow!("a sender panicked"))?
            };
            anyhow::Ok((join(sent)?, join(asked)?, (cpu, syncs)))
        })?;
        ensure!(!acks.is_empty(), "nothing was acknowledged");
        limited.stop(meter.context)?;
        let mut figures = vec![
            figure("cpu", "cores", cpu),
            figure("ack_mean", "ms", mean_ms(&acks)),
            figure("ack_p99", "ms", percentile_ms(&acks, 99.0)),
            figure("sync_mean", "ms", syncs.seconds / syncs.count * 1e3),
            figure("slow_syncs", "%", (1.0 - syncs.fast / syncs.count) * 100.0),
        ];
        if !questions.is_empty() {
            figures.push(figure("question_mean", "ms", mean_ms(&answers)));
            figures.push(figure("question_p99", "ms", percentile_ms(&answers, 99.0)));
        }
        Ok(figures)
    }
}

/// The group commits of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SyncCounts {
    count: f64,
    seconds: f64,
    /// Those of at most 1.6 ms.
    fast: f64,
}

impl SyncCounts {
    fn of(metrics: &str) -> Self {
        let of = |name: &str| sum(metrics, &format!("bucksaw_ingest_sync_seconds_{name}"));
        Self { count: of("count"), seconds: of("sum"), fast: of("bucket{le=\"0.0016\"}") }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            count: self.count - earlier.count,
            seconds: self.seconds - earlier.seconds,
            fast: self.fast - earlier.fast,
        }
    }
}

/// The mean in milliseconds; NaN if empty.
pub(super) fn mean_ms(times: &[Duration]) -> f64 {
    times.iter().map(Duration::as_secs_f64).sum::<f64>() * 1e3 / times.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syncs_are_counted_by_their_time() {
        let metrics = |count: u32, fast: u32| {
            format!(
                "bucksaw_ingest_sync_seconds_sum 0.{count}\nbucksaw_ingest_sync_seconds_count {count}\n\
                 bucksaw_ingest_sync_seconds_bucket{{le=\"0.0016\"}} {fast}\n\
                 bucksaw_ingest_sync_seconds_bucket{{le=\"0.0032\"}} {count}\n"
            )
        };
        let syncs = SyncCounts::of(&metrics(30, 24)).since(SyncCounts::of(&metrics(20, 15)));
        assert_eq!((syncs.count, syncs.fast), (10.0, 9.0));
        assert!((syncs.seconds - 0.1).abs() < 1e-9);
    }
}
