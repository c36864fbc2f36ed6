//! Rolling upgrades and downgrades under load in a healthy cluster: no record is lost, duplicated or refused, and every answer is
//! complete. Nodes of incompatible versions exchange no records and report it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bucksaw_env::sim::{self, World};
use bucksaw_env::with_timeout;
use bucksaw_ingest::Durability;
use bucksaw_node::Roles;
use bucksaw_query::{OwnedRecord, Request};
use bucksaw_record::{Expr, Id, Millis, Producer};
use bucksaw_rpc::{message_body, read_message};

use crate::append::{APPEND, AppendReply, AppendRequest};
use crate::check;
use crate::ledger::{RecordLedger, SentStatus};
use crate::machine::Machine;
use crate::program_version::ProgramVersion;
use crate::settings::NodeSettings;
use crate::sim_cluster::SimCluster;

const INGEST: Roles = Roles { ingest: true, store: false };
const STORE: Roles = Roles { ingest: false, store: true };
const COPIES: usize = 2;

/// Lines of a batch, the timeout of an append, and the pause between attempts.
const LINES: u32 = 5;
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);
const BATCH_INTERVAL: Duration = Duration::from_millis(300);

/// Limit of an orderly stop, which first drains the queue.
const STOP_TIME_MAX: Duration = Duration::from_secs(60);

/// Limit until started nodes are members and pending records are stored.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(60);

struct UpgradeTest {
    world: World,
    cluster: SimCluster,
    ledger: RecordLedger,
    stop: Arc<AtomicBool>,
}

impl UpgradeTest {
    /// Starts nodes of the current version.
    fn new(seed: u64, roles: &[Roles]) -> Self {
        let world = World::new(seed);
        let names: Vec<String> = (0..roles.len()).map(|number| format!("n{number}")).collect();
        let join = names.iter().map(|name| format!("{name}:7659")).collect();
        let settings = NodeSettings::for_simulation(COPIES, 0, join, None);
        let machines = names.iter().zip(roles).enumerate();
        let machines =
            machines.map(|(at, (name, roles))| Machine::new(world.add_host(name), at, *roles, settings.clone()));
        let cluster = SimCluster::from_machines(machines.collect(), COPIES);
        let mut test = Self { cluster, world, ledger: RecordLedger::default(), stop: Arc::default() };
        test.cluster.start_all();
        test.run_until_agreed();
        test
    }

    fn start_writers(&self) {
        let ingest = self.cluster.machines.iter().enumerate().filter(|(_, machine)| machine.roles.ingest);
        let nodes: Vec<_> = ingest.map(|(at, machine)| (at, machine.host.address())).collect();
        for (number, durability) in (0..).zip([Durability::Fast, Durability::Durable, Durability::Bulk]) {
            let host = self.world.add_host(&format!("c{number}"));
            let (ledger, stop, nodes) = (self.ledger.clone(), Arc::clone(&self.stop), nodes.clone());
            host.clone().spawn(async move { write_batches(&host, number, durability, &nodes, &ledger, &stop).await });
        }
    }

    /// Stops a node orderly and starts it as another version.
    fn restart_as(&mut self, at: usize, version: ProgramVersion) {
        self.cluster.machines[at].stop();
        let until = self.world.now() + STOP_TIME_MAX;
        let stopped = loop {
            if let Some(stopped) = self.cluster.machines[at].take_stop_outcome() {
                break stopped;
            }
            assert!(self.world.now() < until, "n{at} does not stop");
            self.run_for(1);
        };
        if stopped.drained && stopped.leave_acknowledged {
            // The remaining nodes have all records.
            self.query_all();
        }
        self.cluster.machines[at].upgrade(version);
        self.cluster.machines[at].start();
    }

    fn run_for(&self, seconds: u64) {
        self.world.run_for(Duration::from_secs(seconds));
    }

    /// Waits until all nodes are members of each other's clusters.
    fn run_until_agreed(&self) {
        assert!(
            self.world.run_until(|| check::check_membership(&self.cluster).is_empty(), SETTLE_TIME_MAX),
            "{:?}",
            check::check_membership(&self.cluster)
        );
    }

    /// Queries every node: each answer is complete and has each acknowledged record once.
    fn query_all(&self) {
        let running = self.cluster.machines.iter().enumerate();
        for (at, answers) in running.filter_map(|(at, machine)| Some((at, machine.answers()?))) {
            let required = self.ledger.required();
            let records = answers.search(Request::new(Expr::All, Millis(0), Millis::MAX)).unwrap();
            let (records, stats) = self.world.block_on(records.write_to(Vec::new())).unwrap();
            let text = |record: &OwnedRecord| (record.id, String::from_utf8_lossy(&record.text).into());
            let found: Vec<(Id, Arc<str>)> = records.iter().map(text).collect();
            assert!(
                !stats.is_partial() && stats.nodes.missing.iter().all(|node| node.reason.label() == "down"),
                "n{at}: {stats:?}"
            );
            assert_eq!(self.ledger.check(&required, &found), []);
            let (count, counted) =
                self.world.block_on(answers.count(Request::new(Expr::All, Millis(0), Millis::MAX), ())).unwrap();
            assert!(
                !counted.is_partial() && count >= required.len() as u64,
                "n{at}: {count} of {}, {counted:?}",
                required.len()
            );
        }
    }

    /// Ends the load: every record is acknowledged and has its replicas. Returns their number.
    fn finish(&self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.run_for(30);
        assert!(self.world.run_until(|| self.cluster.pending_segments() == 0, SETTLE_TIME_MAX));
        self.query_all();
        assert_eq!(check::check_stored(&self.cluster, &self.ledger), []);
        let known = self.ledger.lock();
        let other = known.entries.values().filter(|entry| entry.fate != SentStatus::Acknowledged).count();
        assert_eq!(other, 0, "records that were refused, or of unknown outcome");
        known.entries.len()
    }

    /// The version skews that a node reports.
    fn version_mismatches(&self, at: usize) -> Vec<String> {
        let node = self.cluster.machines[at].node().unwrap();
        node.cluster.members().iter().filter_map(|member| member.version_skew.clone()).collect()
    }

    /// The number of records in a store.
    fn stored(&self, at: usize) -> u64 {
        self.cluster.machines[at].node().unwrap().store.status().records
    }

    /// The age of the oldest pending records of a queue, in seconds.
    fn oldest_pending_secs(&self, at: usize) -> u64 {
        self.cluster.machines[at].node().unwrap().queue.backlog().oldest_age.as_secs()
    }
}

/// Sends batches until it is stopped, each to the nodes in turn until it is acknowledged, as `forward` does.
async fn write_batches(
    host: &sim::Host,
    number: u64,
    durability: Durability,
    nodes: &[(usize, SocketAddr)],
    ledger: &RecordLedger,
    stop: &AtomicBool,
) {
    let (tasks, net, mut sequence, mut turn) = (host.tasks(), host.net(), 0, number as usize);
    while !stop.load(Ordering::Relaxed) {
        let now = Millis(host.env().clock.unix_ms());
        let first = Id::new(now, Producer::new(1_000 + number), sequence);
        let ids: Vec<Id> = (0..LINES).filter_map(|at| first.checked_add(at)).collect();
        sequence += LINES;
        let lines: Vec<String> = ids.iter().map(|id| format!("writer {number} record {}", id.sequence())).collect();
        ids.iter().zip(&lines).for_each(|(id, line)| ledger.record_sent(*id, line.clone(), durability));
        ledger.record_try(&ids);
        let batch = AppendRequest { first, durability: durability.name().to_owned(), lines, key: None };
        loop {
            let (node, address) = nodes[turn % nodes.len()];
            let call =
                async { read_message::<AppendReply>(net.call(address, APPEND, message_body(&batch)?).await?).await };
            turn += 1;
            if let Some(Ok(AppendReply::Acknowledged { cuts })) = with_timeout(&tasks, REPLY_TIMEOUT, call).await {
                ledger.record_acknowledged(&ids, node, cuts);
                break;
            }
            tasks.sleep(BATCH_INTERVAL).await;
        }
        tasks.sleep(BATCH_INTERVAL).await;
    }
}

#[test]
fn a_rolling_upgrade_and_downgrade_lose_duplicate_and_refuse_nothing() {
    for (seed, roles) in
        [(1, [INGEST, INGEST, STORE, STORE, STORE].as_slice()), (2, &[Roles { ingest: true, store: true }; 4])]
    {
        let mut test = UpgradeTest::new(seed, roles);
        test.start_writers();
        test.run_for(10);
        // As documented, stores are upgraded first and downgraded last.
        let up: Vec<usize> = (0..roles.len()).rev().collect();
        let steps = up
            .iter()
            .map(|at| (*at, ProgramVersion::Next))
            .chain(up.iter().rev().map(|at| (*at, ProgramVersion::Current)));
        for (at, version) in steps {
            test.restart_as(at, version);
            test.run_until_agreed();
            test.run_for(6);
            test.query_all();
            assert!((0..roles.len()).all(|at| test.version_mismatches(at).is_empty()));
        }
        let records = test.finish();
        assert!(records > 500, "{records}");
    }
}

#[test]
fn a_skipped_version_is_isolated_and_loses_nothing() {
    let mut test = UpgradeTest::new(3, &[INGEST, INGEST, STORE, STORE, STORE]);
    test.start_writers();
    test.run_for(10);
    test.restart_as(1, ProgramVersion::AfterNext);
    test.restart_as(4, ProgramVersion::AfterNext);
    test.run_until_agreed();
    test.run_for(5);
    let words = "has protocol version 1.2, this node 1.0: no segments are fetched or replicated until the versions are at most \
                 one minor version apart";
    assert_eq!(test.version_mismatches(0), [words, words]);
    assert_eq!(test.version_mismatches(4).len(), 3, "the other direction is not reported");
    let stored = test.stored(4);
    test.run_for(20);
    assert_eq!(test.stored(4), stored, "the isolated store got records");
    let ages = [0, 1].map(|at| test.oldest_pending_secs(at));
    assert!(ages[0] < 15 && ages[1] > 20, "the queue of the isolated node is fetched: {ages:?}");
    test.query_all();
    // With compatible versions again, pending records are stored.
    test.restart_as(1, ProgramVersion::Next);
    test.restart_as(4, ProgramVersion::Next);
    test.run_until_agreed();
    test.run_for(20);
    assert!((0..5).all(|at| test.version_mismatches(at).is_empty()));
    test.finish();
}

#[test]
fn a_store_is_sent_only_formats_that_it_reads() {
    let mut test = UpgradeTest::new(4, &[INGEST, STORE, STORE, STORE]);
    test.start_writers();
    test.run_for(10);
    test.restart_as(3, ProgramVersion::NextWritesTooEarly);
    test.run_until_agreed();
    test.run_for(5);
    let newest = bucksaw_node::FORMATS.stored.reads;
    let next = newest + 1;
    let reads =
        format!("writes stored segments of format {next}, this node reads up to {newest}: it sends no replicas");
    assert_eq!((test.version_mismatches(0), test.version_mismatches(1)), (Vec::<String>::new(), vec![reads]));
    let given =
        format!("reads stored segments up to format {newest}, this node writes {next}: it receives no replicas");
    assert_eq!(test.version_mismatches(3), [given.as_str(), &given]);
    let before = test.stored(3);
    test.run_for(30);
    assert!(test.stored(3) > before, "the store gets no replicas, although it reads their format");
    test.query_all();
    // When the other stores read the new format, it replicates to them.
    test.restart_as(1, ProgramVersion::Next);
    test.restart_as(2, ProgramVersion::Next);
    test.run_until_agreed();
    test.run_for(10);
    assert!((0..4).all(|at| test.version_mismatches(at).is_empty()));
    test.finish();
}
