//! The experiment of OK Log on one machine: 8 forwarders, 3 ingest nodes and 3 stores as processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::Context as _;
use bucksaw_faults::fleet::{self, FleetConfig};

use super::environment::NodeEnvironment;
use super::fleet_load::{ForwarderLoad, planned};
use super::fleet_probe::{FleetProbe, PROBE_TIME};
use super::fleet_sender::FleetSender;
use super::fleet_totals::{FleetTotals, wait_settled};
use super::node_run::mean_ms;
use super::planner::Planner;
use super::prediction::Predictions;
use super::scenario::{Meter, ModelScenario};
use crate::results::{Figure, figure};
use crate::spread::percentile_ms;

/// Forwarders, nodes of each role, and stores that keep each record.
const FORWARDERS: usize = 8;
const NODES: usize = 3;
const COPIES: usize = 2;

/// The seed of the drawn loads: of the first twelve, the one whose loads together are nearest to the mean of all, 17.8 MB/s.
const SEED: u64 = 12;

/// The experiment with the loads of its forwarders.
#[derive(Clone, Debug)]
struct FleetExperiment {
    name: &'static str,
    forwarders: Vec<ForwarderLoad>,
}

/// With loads that were drawn, and with the greatest that can be drawn, half a gigabit per second together.
pub(super) fn scenarios() -> Vec<Box<dyn ModelScenario>> {
    let drawn = ForwarderLoad::drawn(FORWARDERS, SEED);
    vec![
        Box::new(FleetExperiment { name: "8 forwarders, drawn", forwarders: drawn }),
        Box::new(FleetExperiment {
            name: "8 forwarders, 1000 records/s of 8000 B",
            forwarders: vec![ForwarderLoad::GREATEST; FORWARDERS],
        }),
    ]
}

impl ModelScenario for FleetExperiment {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn predict(&self, planner: &Planner) -> anyhow::Result<Vec<Figure>> {
        let load = planned(&self.forwarders);
        let (nodes, copies) = (NODES.to_string(), COPIES.to_string());
        let counts = ["--ingest-nodes", &nodes, "--store-nodes", &nodes];
        let flags = [&counts[..], &["--replication-factor", &copies, "--failed-nodes", "0"]].concat();
        let plan = planner.plan_with(load, &NodeEnvironment::THIS_MACHINE, &flags)?;
        let nodes = NODES as f64;
        let rate = load.bytes_per_second as f64;
        let accepted = plan.value("accepted at the peak")?;
        let cores = |tier| plan.tier_value(tier, "CPU of all work");
        let (accepting, storing) = (cores("ingest node")?, cores("store node")?);
        let in_queue = plan.queue_seconds(planner, &NodeEnvironment::THIS_MACHINE)?;
        let stored = plan.tier_value("store node", "written to disk at the peak")? * nodes / 1e6;
        let found = plan.value("until a record is found, p99")?;
        Ok(vec![
            figure("accepted", "MB/s", rate / 1e6),
            figure("records", "1/s", rate / load.line_bytes as f64),
            figure("consumed", "times", 1.0),
            figure("copies", "times", COPIES as f64),
            figure("cpu_of_ingest_nodes", "cores", accepting * nodes),
            figure("cpu_of_busiest_ingest", "cores", accepting),
            figure("cpu_of_stores", "cores", storing * nodes),
            figure("cpu_of_busiest_store", "cores", storing),
            figure("written_by_ingest_nodes", "MB/s", accepted * nodes / 1e6),
            figure("written_by_stores", "MB/s", stored),
            figure("segments_written", "MB/s", stored),
            figure("in_queue_mean", "s", in_queue),
            figure("queued", "MB", rate * in_queue / 1e6),
            figure("ack_mean", "ms", plan.value("acknowledgement, mean")? * 1e3),
            figure("ack_p99", "ms", plan.value("acknowledgement, p99")? * 1e3),
            figure("found_p99", "ms", found * 1e3),
        ])
    }

    fn measure(&self, meter: &Meter<'_>, _: &Predictions) -> anyhow::Result<Vec<Figure>> {
        let home = meter.context.path("fleet");
        std::fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
        let bucksaw = std::fs::canonicalize(&meter.context.bucksaw)?;
        let config = FleetConfig::new(&bucksaw, &home, COPIES, false)?;
        let mut nodes = fleet::pairs(&config, NODES)?;
        for node in &mut nodes {
            // The default, instead of the small segments of fault runs.
            node.segment_arguments = ["--segment-max-age", "3s"].map(str::to_owned).to_vec();
            node.extra_arguments = vec!["--audit=false".to_owned()];
        }
        fleet::start(&mut nodes)?;
        let to: Vec<_> = nodes.iter().take(NODES).map(fleet::FleetNode::durable).collect();
        let stop = Arc::<AtomicBool>::default();
        let start = |(number, load): (usize, &ForwarderLoad)| {
            let log = home.join(format!("forward-{number}.log"));
            FleetSender::start(&bucksaw, log, &to, (*load, number), &meter.sample, &stop)
        };
        let senders = self.forwarders.iter().enumerate().map(start).collect::<anyhow::Result<Vec<_>>>()?;
        thread::sleep(meter.warm_up);
        let before = (FleetTotals::read(&nodes, &senders)?, Instant::now());
        thread::sleep(meter.time);
        let after = FleetTotals::read(&nodes, &senders)?;
        let mut figures = after.since(&before.0, before.1.elapsed());
        // Searches would add to the CPU, so they come later, under the same load.
        let probe = FleetProbe { ingest: nodes.first().context("no node")?, store: nodes.last().context("no node")? };
        let (acks, found) = probe.run(PROBE_TIME.min(meter.time))?;
        figures.extend([
            figure("ack_mean", "ms", mean_ms(&acks)),
            figure("ack_p99", "ms", percentile_ms(&acks, 99.0)),
            figure("found_mean", "ms", mean_ms(&found)),
            figure("found_p99", "ms", percentile_ms(&found, 99.0)),
        ]);
        stop.store(true, Ordering::Relaxed);
        let sent: Vec<u64> = senders.into_iter().map(FleetSender::finish).collect::<anyhow::Result<_>>()?;
        let records = sent.iter().sum::<u64>() + acks.len() as u64;
        figures.push(figure("copies", "times", wait_settled(&nodes, records)?));
        nodes.iter_mut().try_for_each(fleet::FleetNode::stop)?;
        drop(nodes);
        meter.context.clear(&home)?;
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_load_is_half_a_gigabit_per_second() {
        let bits: f64 = [ForwarderLoad::GREATEST; FORWARDERS].iter().map(|load| load.bytes_per_second() * 8.0).sum();
        assert_eq!(bits, 512e6);
        assert_eq!(scenarios().len(), 2);
    }
}
