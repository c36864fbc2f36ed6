//! `bucksaw plan --live`: a running cluster beside the costs of a calibration, and the head-room of its nodes.
//!
//! The metrics of each node are read at the start, at the end, and between, so that the costs of the cluster can be fitted
//! too: CPU as a linear function of accepted, stored and searched bytes.

use std::time::Duration;

use anyhow::{Context as _, bail};
use bucksaw_capacity::{Calibration, FigureUnit, HeadRoom, NodeRates, Resource, WorkCounters};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::PlanArgs;
use super::least_squares::{Observation, fit};
use super::render::{amount, digits};
use super::work_counters::parse_counters;
use crate::args::{DocumentFormat, NodeArgs};
use crate::exit::Exit;
use crate::interrupt;
use crate::node_client::{self, NodeClient};
use crate::print::Out;
use crate::text_table::TextTable;

/// Parts of the interval, of which each is an observation of all nodes.
const PARTS: u32 = 6;

/// Costs of less than this part of the CPU of a core are not fitted: other work of the node is as much.
const FITTED_CORES_MIN: f64 = 0.02;

/// A node that is observed.
struct ObservedNode {
    name: String,
    client: NodeClient,
    first: WorkCounters,
    last: WorkCounters,
    parts: Vec<NodeRates>,
}

pub(super) fn run(args: &PlanArgs, calibration: &Calibration) -> anyhow::Result<Exit> {
    interrupt::exit_on_interrupt()?;
    let runtime = node_client::runtime()?;
    let (nodes, missing, time) = runtime.block_on(observe(&args.node, args.interval))?;
    let request_bytes = args.request_bytes.0.max(1) as f64;
    let found: Vec<(String, NodeRates, HeadRoom)> = nodes
        .iter()
        .filter_map(|node| {
            let rates = node.last.since(&node.first, time)?;
            Some((node.name.clone(), rates, HeadRoom::of(&rates, &node.last, calibration, request_bytes)))
        })
        .collect();
    if found.is_empty() {
        bail!("no node could be observed: each restarted meanwhile, or is an older version");
    }
    let fitted = fitted_costs(&nodes);
    let text = match args.output {
        DocumentFormat::Text => text(&found, &missing, fitted, calibration),
        _ => json(&found, &missing, fitted),
    };
    let mut out = Out::stdout()?;
    out.write_sanitised(text.as_bytes())?;
    out.flush()?;
    Ok(if missing.is_empty() { Exit::Done } else { Exit::Failed })
}

/// Reads the metrics of all nodes several times. Returns them, those that could not be read, and the time between the first and
/// the last reading.
async fn observe(args: &NodeArgs, interval: Duration) -> anyhow::Result<(Vec<ObservedNode>, Vec<String>, Duration)> {
    let client = NodeClient::new(args)?;
    let cluster = client.get_json("/api/v1/cluster").await?;
    let (mut nodes, mut missing) = (Vec::new(), Vec::new());
    for node in cluster["nodes"].as_array().into_iter().flatten() {
        let id = node["id"].as_str().unwrap_or("?");
        let name = node["host"].as_str().filter(|host| !host.is_empty()).unwrap_or(id).to_owned();
        if node["id"] == cluster["queried_node"] || cluster["queried_node"].is_null() {
            nodes.push((format!("{name} ({})", args.addr), client.renewed()));
        } else if let Some(http) = node["addresses"]["http"].as_str() {
            let scheme = if args.addr.is_https() { "https" } else { "http" };
            let addr =
                format!("{scheme}://{http}").parse().map_err(|_| anyhow::anyhow!("{name} has no usable address"))?;
            nodes.push((format!("{name} ({http})"), NodeClient::new(&NodeArgs { addr, ..args.clone() })?));
        } else {
            missing.push(format!("{name}: no address is known"));
        }
    }
    let started = Instant::now();
    let mut observed = Vec::new();
    for (name, client) in nodes {
        match read_metrics(&client).await {
            Ok(first) => observed.push(ObservedNode { name, client, first, last: first, parts: Vec::new() }),
            Err(error) => missing.push(format!("{name}: {error:#}")),
        }
    }
    for part in 1..=PARTS {
        let due = interval * part / PARTS;
        sleep(due.saturating_sub(started.elapsed())).await;
        for at in (0..observed.len()).rev() {
            let Some(node) = observed.get_mut(at) else { continue };
            match read_metrics(&node.client).await {
                Ok(counters) => {
                    node.parts.extend(counters.since(&node.last, interval / PARTS));
                    node.last = counters;
                }
                Err(error) => {
                    missing.push(format!("{}: {error:#}", node.name));
                    observed.remove(at);
                }
            }
        }
    }
    Ok((observed, missing, started.elapsed()))
}

async fn read_metrics(client: &NodeClient) -> anyhow::Result<WorkCounters> {
    let body = client.renewed().get("/metrics").await?;
    let text = std::str::from_utf8(&body).context("its metrics are no text")?;
    parse_counters(text).context("its metrics lack some of this version")
}

/// CPU seconds per accepted, stored and searched byte of the cluster, if the observations determine them.
fn fitted_costs(nodes: &[ObservedNode]) -> Option<[f64; 3]> {
    let parts = nodes.iter().flat_map(|node| &node.parts).filter(|rates| rates.cpu_cores > FITTED_CORES_MIN);
    let observations: Vec<Observation<3>> = parts
        .map(|rates| Observation {
            work: [rates.accepted_bytes, rates.copied_bytes, rates.scanned_bytes].map(|rate| rate * rates.seconds),
            seconds: rates.cpu_cores * rates.seconds,
        })
        .collect();
    if observations.len() < 4 { None } else { fit(&observations) }
}

fn text(
    found: &[(String, NodeRates, HeadRoom)],
    missing: &[String],
    fitted: Option<[f64; 3]>,
    calibration: &Calibration,
) -> String {
    let mut table = TextTable::new(vec![
        "node",
        "in",
        "stored",
        "questions",
        "question",
        "commit",
        "cpu",
        "predicted",
        "cpu full at",
        "disk full in",
    ]);
    let rate = |value: f64| Some(amount(value, FigureUnit::BytesPerSecond));
    let time = |value: Option<f64>| value.map(|value| amount(value, FigureUnit::Seconds));
    for (name, rates, room) in found {
        table.push(vec![
            Some(name.clone()),
            rate(rates.accepted_bytes),
            rate(rates.copied_bytes),
            Some(amount(rates.questions, FigureUnit::PerSecond)),
            time(rates.question_seconds),
            time(rates.commit_seconds),
            Some(amount(room.cpu_measured, FigureUnit::Cores)),
            Some(amount(room.cpu_predicted, FigureUnit::Cores)),
            room.cpu_factor.is_finite().then(|| format!("{} times this load", digits(room.cpu_factor))),
            room.disk_full_seconds.is_finite().then(|| amount(room.disk_full_seconds, FigureUnit::Seconds)),
        ]);
    }
    let mut text = table.to_string();
    let cost = |value: f64| amount(value, FigureUnit::SecondsPerByte);
    match fitted {
        Some([accepting, storing, searching]) => text.push_str(&format!(
            "costs fitted to this cluster: {} accepted, {} stored, {} searched\n",
            cost(accepting),
            cost(storing),
            cost(searching)
        )),
        None => text.push_str("costs cannot be fitted: the load is too low or too even for it\n"),
    }
    text.push_str(&format!(
        "predicted by costs of {} cores of {}: {} accepted, {} stored\n",
        calibration.machine.cores,
        calibration.machine.processor,
        cost(calibration.accept.seconds_per_byte),
        cost(calibration.store.seconds_per_byte)
    ));
    text.extend(missing.iter().map(|node| format!("not observed: {node}\n")));
    text
}

fn json(found: &[(String, NodeRates, HeadRoom)], missing: &[String], fitted: Option<[f64; 3]>) -> String {
    let nodes: Vec<Value> = found
        .iter()
        .map(|(name, rates, room)| {
            json!({
                "node": name, "seconds": rates.seconds, "accepted_bytes_per_second": rates.accepted_bytes,
                "accepted_records_per_second": rates.accepted_records,
                "stored_bytes_per_second": rates.copied_bytes, "searched_bytes_per_second": rates.scanned_bytes,
                "questions_per_second": rates.questions, "question_mean_seconds": rates.question_seconds,
                "commit_mean_seconds": rates.commit_seconds, "cpu_cores": room.cpu_measured,
                "cpu_cores_predicted": room.cpu_predicted, "cpu_full_at_load_factor": room.cpu_factor,
                "disk_full_in_seconds": room.disk_full_seconds, "limited_by": room.limited_by().map(Resource::name),
            })
        })
        .collect();
    let fitted = fitted.map(|[accepted, stored, searched]| {
        json!({
            "seconds_per_accepted_byte": accepted, "seconds_per_stored_byte": stored,
            "seconds_per_searched_byte": searched,
        })
    });
    format!("{}\n", json!({"nodes": nodes, "not_observed": missing, "fitted": fitted}))
}
