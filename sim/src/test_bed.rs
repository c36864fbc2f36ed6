//! An ingest node and stores in a world whose only faults come from the test.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use bucksaw_env::sim::{self, World};
use bucksaw_node::Roles;
use bucksaw_record::{Id, Millis, Producer};
use bucksaw_rpc::{message_body, read_message};
use bucksaw_store::repair;

use crate::append::{APPEND, AppendReply, AppendRequest};
use crate::machine::Machine;
use crate::settings::NodeSettings;
use crate::sim_cluster::SimCluster;

const INGEST: Roles = Roles { ingest: true, store: false };
const STORE: Roles = Roles { ingest: false, store: true };

/// Time until everything is repaired: a node is down within 5 s and lost 10 s later, and a pass over these few records takes
/// some seconds.
pub(crate) const REPAIR_TIME_MAX: Duration = Duration::from_secs(30);

pub(crate) const LOST_AFTER: Duration = Duration::from_secs(10);
pub(crate) const MARGIN: Duration = Duration::from_secs(15);
pub(crate) const PERIOD: Duration = Duration::from_secs(120);

pub(crate) struct TestBed {
    pub(crate) world: World,
    pub(crate) cluster: SimCluster,
    pub(crate) client: sim::Host,
    pub(crate) sent: u32,
}

impl TestBed {
    /// One ingest node and `stores` stores.
    pub(crate) fn new(seed: u64, stores: usize, copies: usize) -> Self {
        let repair = repair::Config {
            lost_after: LOST_AFTER,
            fresh_age_max: MARGIN,
            pass_interval: PERIOD,
            retry_delay: Duration::from_secs(2),
            ..repair::Config::default()
        };
        Self::with_repair(seed, stores, copies, repair)
    }

    /// The same with other settings of repair.
    pub(crate) fn with_repair(seed: u64, stores: usize, copies: usize, repair: repair::Config) -> Self {
        let world = World::new(seed);
        let names: Vec<String> = (0..=stores).map(|number| format!("n{number}")).collect();
        let join = names.iter().map(|name| format!("{name}:7659")).collect();
        let mut settings = NodeSettings::for_simulation(copies, 0, join, None);
        settings.store.repair = repair;
        let machine = |(number, name): (usize, &String)| {
            let roles = if number == 0 { INGEST } else { STORE };
            Machine::new(world.add_host(name), number, roles, settings.clone())
        };
        let machines = names.iter().enumerate().map(machine).collect();
        let client = world.add_host("client");
        let mut bed = Self { cluster: SimCluster::from_machines(machines, copies), world, client, sent: 0 };
        bed.cluster.start_all();
        bed.run_for(Duration::from_secs(5));
        bed
    }

    pub(crate) fn run_for(&self, time: Duration) {
        self.world.run_for(time);
    }

    /// Sends 20 records per second.
    pub(crate) fn send(&mut self, seconds: u64) {
        for _ in 0..seconds {
            let count = 20;
            let now = Millis(self.client.env().clock.unix_ms());
            let first = Id::new(now, Producer::new(1_000 + u64::from(self.sent % 7)), self.sent);
            let line = |at: u32| format!("record {} {}", self.sent + at, "x".repeat((at as usize * 37) % 200));
            let batch = AppendRequest {
                first,
                durability: "durable".to_owned(),
                lines: (0..count).map(line).collect(),
                key: None,
            };
            self.sent += count;
            let (net, to) = (self.client.net(), self.cluster.machines[0].host.address());
            let appended = self.world.block_on(async move {
                read_message::<AppendReply>(net.call(to, APPEND, message_body(&batch)?).await?).await
            });
            assert_eq!(appended.unwrap(), AppendReply::Acknowledged { cuts: 0 });
            self.run_for(Duration::from_secs(1));
        }
    }

    /// Waits until every record is stored and replicated.
    pub(crate) fn run_until_stored(&self) {
        assert!(self.world.run_until(|| self.cluster.pending_segments() == 0, Duration::from_secs(60)));
        self.run_for(MARGIN + Duration::from_secs(5));
        self.assert_replica_counts();
    }

    /// The number of records by their number of replicas.
    pub(crate) fn replica_counts(&self) -> BTreeMap<usize, usize> {
        let mut counts = BTreeMap::new();
        self.cluster.replicas().values().for_each(|(count, _)| *counts.entry(*count).or_insert(0) += 1);
        counts
    }

    /// Every record must have exactly its replicas.
    pub(crate) fn assert_replica_counts(&self) {
        assert_eq!(self.replica_counts(), BTreeMap::from([(self.cluster.copies, self.sent as usize)]));
    }

    pub(crate) fn statuses(&self) -> Vec<repair::RepairStatus> {
        self.cluster.machines.iter().filter_map(Machine::repair).map(|repair| repair.status()).collect()
    }

    pub(crate) fn restored_bytes(&self) -> u64 {
        self.statuses().iter().map(|status| status.restored_bytes).sum()
    }

    /// Starts a pass over all time on every store.
    pub(crate) fn hint_everything(&self) {
        let repairs = self.cluster.machines.iter().filter_map(Machine::repair);
        repairs.for_each(|repair| repair.hint(Millis(0), Millis::MAX));
    }

    /// Destroys a machine.
    pub(crate) fn destroy(&mut self, at: usize) {
        self.cluster.machines[at].destroy();
    }

    pub(crate) fn damage(&self, at: usize, path: &Path, bytes: std::ops::Range<u64>) {
        assert!(self.cluster.machines[at].host.fs().corrupt(path, bytes));
        self.cluster.clear_cache(at);
    }

    pub(crate) fn assert_repaired(&self) {
        assert!(self.is_replicated_within(REPAIR_TIME_MAX), "{:?} {:#?}", self.replica_counts(), self.statuses());
        self.assert_replica_counts();
    }

    /// Whether every record has at least its replicas within `time`.
    pub(crate) fn is_replicated_within(&self, time: Duration) -> bool {
        let until = self.world.now() + time;
        loop {
            if self.replica_counts().keys().all(|count| *count >= self.cluster.copies) {
                return true;
            }
            if self.world.now() >= until {
                return false;
            }
            self.run_for(Duration::from_millis(500));
        }
    }
}
