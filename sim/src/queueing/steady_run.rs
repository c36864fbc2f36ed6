//! A cluster under a steady load, and its measurement.

use std::sync::Arc;
use std::time::Duration;

use bucksaw_cluster::JoinState;
use bucksaw_env::sim::{SyncDuration, World};
use bucksaw_node::{Node, Roles};
use bucksaw_record::{Id, Millis, Producer};
use bucksaw_segment::Codec;

use super::calibration::{
    APPEND_BYTES, GATHER_SECONDS, GATHER_VARIATION, SEGMENT_FILE_BYTES, SEGMENT_TEXT_BYTES, SYNC_TIME, SYNC_VARIATION,
};
use super::figures::QueueingFigures;
use super::lease_observer::LeaseObserver;
use super::load::QueueingLoad;
use crate::append::{AppendRequest, append};
use crate::machine::Machine;
use crate::rng::SeededRng;
use crate::settings::{NEVER, NodeSettings};
use crate::sim_cluster::SimCluster;

/// Interval in which the queues are read. Segments wait for a fraction of a second and more.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

/// Time from the start of the gathers' times to that of the window: many gathers.
const WARM_UP: Duration = Duration::from_secs(30);

/// Maximum time until all nodes know each other.
const JOIN_TIME_MAX: Duration = Duration::from_secs(120);

/// Nodes that all nodes join at the start.
const SEEDS: usize = 3;

/// Segments are kept for this long after their commit, and by the stores. No query reads them.
const KEPT: Duration = Duration::from_secs(1);
const STORED_AGE: Duration = Duration::from_secs(30);

/// Prefix of the producers of the records; the ingest nodes are numbered from it.
const PRODUCER: u64 = 5_000;

/// A cluster under load.
struct SteadyRun {
    world: World,
    cluster: SimCluster,
    observer: LeaseObserver,
}

impl QueueingLoad {
    /// The figures of a window of `window` of simulated time, or as long as `segments` segments arrive, if that is longer.
    pub(super) fn measure(self, seed: u64, window: Duration, segments: u32) -> QueueingFigures {
        let time = Duration::from_secs_f64(f64::from(segments) / self.segments_per_second()).max(window);
        let run = SteadyRun::start(self, seed);
        run.world.run_for(WARM_UP);
        run.measure(time)
    }

    fn settings(self, join: Vec<String>) -> NodeSettings {
        let mut settings = NodeSettings::for_simulation(1, 0, join, None);
        let (queue, store) = (&mut settings.queue, &mut settings.store);
        queue.segment_bytes_max = SEGMENT_FILE_BYTES;
        (queue.committed_grace, queue.committed_grace_remote) = (KEPT, KEPT);
        (store.codec_quick, store.codec_final) = (Codec::Plain, Codec::Plain);
        store.gather_bytes = SEGMENT_TEXT_BYTES;
        store.gather_age = Duration::from_secs(10);
        store.merge_bytes_max = 0;
        (store.retention_age, store.trash_age) = (Some(STORED_AGE), Duration::ZERO);
        store.retention_labels.clear();
        (store.repair.lost_after, store.repair.pass_interval) = (NEVER, NEVER);
        settings
    }
}

impl SteadyRun {
    /// A cluster whose nodes know each other, with load and calibrated times.
    fn start(load: QueueingLoad, seed: u64) -> Self {
        let world = World::new(seed);
        let names: Vec<String> = (0..load.nodes).map(|number| format!("n{number}")).collect();
        let join = names.iter().take(SEEDS).map(|name| format!("{name}:7659")).collect();
        let settings = load.settings(join);
        let machine = |(number, name): (usize, &String)| {
            let ingest = number < load.ingest_nodes() as usize;
            let roles = Roles { ingest, store: !ingest };
            Machine::new(world.add_host(name), number, roles, settings.clone())
        };
        let machines = names.iter().enumerate().map(machine).collect();
        let mut cluster = SimCluster::from_machines(machines, 1);
        cluster.start_all();
        let run = Self { world, cluster, observer: LeaseObserver::default() };
        run.join(load.nodes as usize);
        for (at, node) in run.cluster.nodes().filter(|(_, node)| node.roles.ingest) {
            run.observer.observe(node);
            run.start_appends(at, node, load.appends_per_second(), seed ^ at as u64);
        }
        run.calibrate(seed);
        run
    }

    /// Waits until all nodes know each other.
    fn join(&self, nodes: usize) {
        let knows_all = |node: &Node| {
            let members = node.cluster.members();
            let others = members.iter().filter(|member| member.is_live() && member.facts.node != node.id).count();
            node.cluster.join_state() == JoinState::Joined && others + 1 == nodes
        };
        let mut waited = Duration::ZERO;
        while !self.cluster.nodes().all(|(_, node)| knows_all(node)) {
            assert!(waited < JOIN_TIME_MAX, "the nodes do not find each other");
            self.world.run_for(Duration::from_secs(1));
            waited += Duration::from_secs(1);
        }
    }

    /// Starts appends of one record each, at independent times.
    fn start_appends(&self, at: usize, node: &Node, per_second: f64, seed: u64) {
        let Some(machine) = self.cluster.machines.get(at) else { return };
        let (host, observer, rng) = (machine.host.clone(), self.observer.clone(), SeededRng::new(seed));
        let (tasks, clock, queue) = (host.tasks(), host.env().clock, Arc::clone(&node.queue));
        let first = Id::new(Millis(clock.unix_ms()), Producer::new(PRODUCER + at as u64), 0);
        host.clone().spawn(async move {
            for number in 0.. {
                tasks.sleep(Duration::from_secs_f64(rng.exponential(1.0 / per_second))).await;
                let id = Id::new(Millis(clock.unix_ms()).max(first.time()), first.producer(), number);
                let text = format!("append {number} {}", "x".repeat(APPEND_BYTES));
                let line: String = text.chars().take(APPEND_BYTES - 1).collect();
                let batch = AppendRequest { first: id, durability: "durable".to_owned(), lines: vec![line], key: None };
                let (queue, observer, clock) = (Arc::clone(&queue), observer.clone(), Arc::clone(&clock));
                tasks.spawn(Box::pin(async move {
                    let appended = append(&queue, batch, false).await;
                    assert!(appended.is_ok(), "{appended:?}");
                    observer.record_accepted(id, APPEND_BYTES, clock.uptime());
                }));
            }
        });
    }

    /// Gives syncs and gathers their times, once a store has a full segment, whose file shows the bytes that a gather syncs.
    fn calibrate(&self, seed: u64) {
        let full_file_bytes = || {
            let stores = self.cluster.nodes().filter_map(|(_, node)| node.replication.as_ref());
            let segments: Vec<_> = stores.flat_map(|replication| replication.store.segments().to_vec()).collect();
            let full = segments.iter().find(|segment| segment.reach().text_bytes == SEGMENT_TEXT_BYTES);
            full.map(|segment| segment.file_bytes())
        };
        let mut file_bytes = None;
        while file_bytes.is_none() {
            self.world.run_for(Duration::from_secs(1));
            file_bytes = full_file_bytes();
        }
        let seconds_per_byte = (GATHER_SECONDS - SYNC_TIME.as_secs_f64()) / file_bytes.unwrap_or(1) as f64;
        let sync = SyncDuration { mean: SYNC_TIME, seconds_per_byte: 0.0, variation: SYNC_VARIATION };
        let gather = SyncDuration { mean: SYNC_TIME, seconds_per_byte, variation: GATHER_VARIATION };
        for machine in &self.cluster.machines {
            let time = if machine.roles.store { gather } else { sync };
            machine.host.fs().set_sync_duration(Some(time), seed ^ machine.id().producer().bits());
        }
    }

    /// The figures of the next `window`.
    fn measure(&self, window: Duration) -> QueueingFigures {
        self.observer.reset();
        let from = self.world.now();
        let (mut samples, mut waiting, mut leased) = (0_u32, 0, 0);
        while self.world.now() - from < window {
            self.world.run_for(SAMPLE_INTERVAL);
            samples += 1;
            waiting += self.cluster.nodes().map(|(_, node)| node.queue.backlog().segments).sum::<usize>();
            leased += self.observer.counts().leased;
        }
        let mut counts = self.observer.counts();
        counts.stored_seconds.sort_unstable_by(f64::total_cmp);
        let (records, samples) = (counts.stored_seconds.len(), f64::from(samples));
        let p99 = counts.stored_seconds.get(records * 99 / 100).copied().unwrap_or(f64::NAN);
        QueueingFigures {
            waiting: waiting as f64 / samples,
            uncommitted: (waiting + leased) as f64 / samples,
            stored_mean: counts.stored_seconds.iter().sum::<f64>() / records as f64,
            stored_p99: p99,
            vain_rounds: f64::from(counts.vain_rounds) / f64::from(counts.fetched_segments),
            empty_share: f64::from(counts.empty_fetches) / f64::from(counts.fetches),
            consumed_ratio: counts.fetched_bytes as f64 / counts.accepted_bytes as f64,
        }
    }
}
