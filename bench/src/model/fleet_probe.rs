//! Lines that are sent to one node and searched on another one, while the cluster is under load.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bucksaw_faults::fleet::FleetNode;
use bucksaw_faults::http::Client;

use crate::node::number;

/// The time for which lines are sent.
pub(super) const PROBE_TIME: Duration = Duration::from_secs(30);

/// The time between two lines. Each search reads a few seconds of all text.
const EVERY: Duration = Duration::from_millis(200);

/// The time from the end of a search to the next one.
const AGAIN_AFTER: Duration = Duration::from_millis(1);

/// The most time until a line is found.
const FOUND_MAX: Duration = Duration::from_secs(20);

/// The nodes that a probe uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct FleetProbe<'a> {
    pub(super) ingest: &'a FleetNode,
    pub(super) store: &'a FleetNode,
}

impl FleetProbe<'_> {
    /// Returns the times from each line to its acknowledgement, and to the first answer that has it.
    pub(super) fn run(&self, time: Duration) -> anyhow::Result<(Vec<Duration>, Vec<Duration>)> {
        let mut ingest = Client::connect(self.ingest.http(), FOUND_MAX).context("cannot connect to an ingest node")?;
        let mut store = Client::connect(self.store.http(), FOUND_MAX).context("cannot connect to a store")?;
        let started = Instant::now();
        let (mut acks, mut found) = (Vec::new(), Vec::new());
        while started.elapsed() < time {
            let due = EVERY * acks.len() as u32;
            thread::sleep(due.saturating_sub(started.elapsed()));
            let token = format!("probe-{:06}-{}", acks.len(), std::process::id());
            let sent = Instant::now();
            let target = "/api/v1/ingest?durability=durable&label=writer=probe";
            let answer =
                ingest.call("POST", target, &[("Content-Type", "text/plain")], format!("{token}\n").as_bytes())?;
            ensure!(answer.status == 200, "{target}: status {}", answer.status);
            acks.push(sent.elapsed());
            while number(&store.get(&format!("/api/v1/count?q={token}&from=5s"))?.ok_json()?, "/count")? == 0 {
                ensure!(sent.elapsed() < FOUND_MAX, "{token} is not found after {FOUND_MAX:?}");
                thread::sleep(AGAIN_AFTER);
            }
            found.push(sent.elapsed());
        }
        Ok((acks, found))
    }
}
