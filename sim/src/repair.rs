//! Stores and disks are lost in a world where all else is well: each record is kept as often as promised again within a
//! stated time, and nothing is copied that need not be.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use bucksaw_doors::Fs as _;
use bucksaw_doors::sim::{self, World};
use bucksaw_ingest::handover::{message, read_message};
use bucksaw_node::Roles;
use bucksaw_record::{Id, Millis, Producer};
use bucksaw_store::repair;

use crate::append::{APPEND, Append, Appended};
use crate::fleet::Fleet;
use crate::machine::Machine;
use crate::settings::Settings;

const INGEST: Roles = Roles { ingest: true, store: false };
const STORE: Roles = Roles { ingest: false, store: true };

/// After so long everything has come right: a node is taken for down within five seconds, is lost ten later, and a pass over
/// these few records takes a few more.
const REPAIRED: Duration = Duration::from_secs(30);

const LOST_AFTER: Duration = Duration::from_secs(10);
const MARGIN: Duration = Duration::from_secs(15);
const PERIOD: Duration = Duration::from_secs(120);

struct Bench {
    world: World,
    fleet: Fleet,
    client: sim::Node,
    sent: u32,
}

impl Bench {
    /// A node that takes in, and some stores.
    fn new(seed: u64, stores: usize, copies: usize) -> Self {
        let world = World::new(seed);
        let names: Vec<String> = (0..=stores).map(|number| format!("n{number}")).collect();
        let join = names.iter().map(|name| format!("{name}:7659")).collect();
        let mut settings = Settings::small(copies, 0, join, None);
        settings.shelf.repair = repair::Config {
            lost_after: LOST_AFTER,
            margin: MARGIN,
            period: PERIOD,
            again: Duration::from_secs(2),
            ..repair::Config::default()
        };
        let machine = |(number, name): (usize, &String)| {
            let roles = if number == 0 { INGEST } else { STORE };
            Machine::new(world.add_node(name), number, roles, settings.clone())
        };
        let machines = names.iter().enumerate().map(machine).collect();
        let client = world.add_node("client");
        let mut bench = Self { fleet: Fleet::of(machines, copies), world, client, sent: 0 };
        bench.fleet.start_all();
        bench.pass(Duration::from_secs(5));
        bench
    }

    fn pass(&self, time: Duration) {
        self.world.run_for(time);
    }

    /// Sends records for so many seconds.
    fn send(&mut self, seconds: u64) {
        for _ in 0..seconds {
            let count = 20;
            let now = Millis(self.client.doors().clock.unix_ms());
            let first = Id::new(now, Producer::new(1_000 + u64::from(self.sent % 7)), self.sent);
            let line = |at: u32| format!("record {} {}", self.sent + at, "x".repeat((at as usize * 37) % 200));
            let batch = Append { first, durability: "durable".to_owned(), lines: (0..count).map(line).collect() };
            self.sent += count;
            let (net, to) = (self.client.net(), self.fleet.machines[0].host.address());
            let appended = self
                .world
                .block_on(async move { read_message::<Appended>(net.call(to, APPEND, message(&batch)?).await?).await });
            assert_eq!(appended.unwrap(), Appended::Kept { cuts: 0 });
            self.pass(Duration::from_secs(1));
        }
    }

    /// Lets everything come to rest on the shelves.
    fn settle(&self) {
        assert!(self.world.run_until(|| self.fleet.waiting() == 0, Duration::from_secs(60)));
        self.pass(MARGIN + Duration::from_secs(5));
        self.check();
    }

    /// How many records are on how many of the stores that are up.
    fn copies(&self) -> BTreeMap<usize, usize> {
        let mut copies = BTreeMap::new();
        self.fleet.stored().values().for_each(|(count, _)| *copies.entry(*count).or_insert(0) += 1);
        copies
    }

    /// Every record is kept exactly as often as promised.
    fn check(&self) {
        assert_eq!(self.copies(), BTreeMap::from([(self.fleet.copies, self.sent as usize)]));
    }

    fn statuses(&self) -> Vec<repair::Status> {
        self.fleet.machines.iter().filter_map(Machine::repair).map(|repair| repair.status()).collect()
    }

    fn restored_bytes(&self) -> u64 {
        self.statuses().iter().map(|status| status.restored_bytes).sum()
    }

    /// All walkers look at everything now.
    fn hint(&self) {
        let walkers = self.fleet.machines.iter().filter_map(Machine::repair);
        walkers.for_each(|repair| repair.hint(Millis(0), Millis::MAX));
    }

    /// A machine is lost for good.
    fn destroy(&mut self, at: usize) {
        self.fleet.machines[at].destroy();
    }

    fn flip(&self, at: usize, path: &Path, bit: u64) {
        assert!(self.fleet.machines[at].host.fs().flip_bit(path, bit));
        self.fleet.was_changed(at);
    }

    fn repaired(&self) {
        assert!(self.is_whole_within(REPAIRED), "{:?} {:#?}", self.copies(), self.statuses());
        self.check();
    }

    /// Whether every record is kept often enough within a time.
    fn is_whole_within(&self, time: Duration) -> bool {
        let until = self.world.now() + time;
        loop {
            if self.copies().keys().all(|count| *count >= self.fleet.copies) {
                return true;
            }
            if self.world.now() >= until {
                return false;
            }
            self.pass(Duration::from_millis(500));
        }
    }
}

#[test]
fn copies_of_a_lost_store_are_restored() {
    for (seed, stores, copies) in [(1, 3, 2), (2, 4, 2), (3, 5, 3)] {
        let mut bench = Bench::new(seed, stores, copies);
        bench.send(40);
        bench.settle();
        let lost = Millis(bench.client.doors().clock.unix_ms());
        bench.destroy(1);
        assert!(bench.copies().keys().any(|count| *count < copies), "it had some");
        bench.repaired();
        bench.pass(REPAIRED);
        for status in bench.statuses() {
            assert!(
                status.walked.is_some_and(|walked| walked >= lost),
                "all others know that it was made good: {status:?}"
            );
            assert_eq!((status.missing, status.lost.len()), (0, 1));
        }
        let node = bench.fleet.machines[0].node().unwrap();
        let members = node.cluster.members();
        let told = members.iter().filter(|member| member.is_live() && member.facts.roles.store);
        assert!(told.clone().count() == stores - 1 && told.clone().all(|member| member.facts.walked >= Some(lost)));
        let bytes = bench.restored_bytes();
        assert!(bytes > 0);
        bench.pass(3 * PERIOD);
        assert_eq!(bench.restored_bytes(), bytes, "and that was all");
        bench.check();
    }
}

#[test]
fn two_losses_one_after_the_other_lose_nothing() {
    let mut bench = Bench::new(4, 4, 2);
    bench.send(30);
    bench.settle();
    bench.destroy(2);
    bench.repaired();
    bench.pass(Duration::from_secs(10));
    bench.destroy(4);
    bench.repaired();
}

#[test]
fn a_healthy_cluster_copies_nothing() {
    let mut bench = Bench::new(5, 3, 2);
    // Records come and go to the shelves all the while, are merged, and the passes find some on their way.
    for _ in 0..400 {
        bench.send(1);
        bench.hint();
    }
    bench.settle();
    let first: Vec<_> = bench.statuses().iter().map(|status| status.walked).collect();
    bench.pass(2 * PERIOD);
    for (status, first) in bench.statuses().iter().zip(first) {
        assert!(first.is_some() && status.walked > first, "passes come to their end: {status:?}");
        assert_eq!((status.restored_bytes, status.missing), (0, 0));
    }
    bench.check();
}

#[test]
fn a_store_that_is_only_started_anew_starts_no_storm() {
    let mut bench = Bench::new(6, 3, 2);
    bench.send(30);
    bench.settle();
    for at in 1..=3 {
        bench.fleet.machines[at].kill();
        // Long enough to be known to be down.
        bench.pass(LOST_AFTER * 9 / 10);
        bench.hint();
        bench.pass(LOST_AFTER / 5);
        bench.fleet.start_all();
        bench.pass(Duration::from_secs(60));
    }
    assert_eq!(bench.restored_bytes(), 0);
    bench.check();
}

#[test]
fn a_damaged_block_is_restored_from_another_store() {
    let mut bench = Bench::new(7, 3, 2);
    bench.send(30);
    bench.settle();
    bench.pass(PERIOD);
    let node = bench.fleet.machines[1].node().unwrap();
    let segment = node.shelf.segments()[0].clone();
    let block = segment.footer().blocks[0].clone();
    bench.flip(1, segment.reader().path(), (block.at + block.rows_bytes() + 9) * 8);
    assert_eq!(bench.restored_bytes(), 0);
    // The next pass that holds blocks against their checksums.
    bench.pass(2 * PERIOD);
    assert!(bench.is_whole_within(Duration::ZERO), "{:?}", bench.copies());
    bench.check();
    let restored: u64 = bench.statuses().iter().map(|status| status.restored_records).sum();
    assert!(restored >= block.reach.records && restored < u64::from(bench.sent) / 2, "{restored}");
}

#[test]
fn a_disk_that_comes_back_empty_is_a_loss() {
    let mut bench = Bench::new(8, 3, 2);
    bench.send(30);
    bench.settle();
    bench.fleet.machines[3].kill();
    let machine = &mut bench.fleet.machines[3];
    machine.host.restart();
    let fs = machine.host.fs();
    let files: Vec<_> = fs.paths().into_iter().filter(|path| path.starts_with("/data/shelf")).collect();
    assert!(!files.is_empty());
    files.iter().for_each(|path| fs.remove(path).unwrap());
    fs.sync_dir(Path::new("/data/shelf")).unwrap();
    machine.start();
    assert!(bench.copies().contains_key(&1));
    bench.repaired();
}

#[test]
fn a_hint_is_followed_at_once() {
    let mut bench = Bench::new(9, 3, 2);
    bench.send(30);
    bench.settle();
    bench.pass(PERIOD);
    let node = bench.fleet.machines[1].node().unwrap();
    let segment = node.shelf.segments()[0].clone();
    let block = segment.footer().blocks[0].clone();
    bench.flip(1, segment.reader().path(), (block.at + block.rows_bytes() + 9) * 8);
    // A search finds the damage, and tells.
    assert!(segment.block(0).is_err());
    let (low, high) = (block.reach.low.at(), block.reach.high.at());
    bench.fleet.machines.iter().filter_map(Machine::repair).for_each(|repair| repair.hint(low, high));
    assert!(bench.is_whole_within(Duration::from_secs(5)), "{:?}", bench.copies());
    bench.check();
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = |seed| {
        let mut bench = Bench::new(seed, 3, 2);
        bench.send(10);
        bench.destroy(2);
        bench.pass(REPAIRED * 2);
        (bench.world.fingerprint(), bench.restored_bytes())
    };
    let one = run(10);
    assert!(one.1 > 0);
    assert_eq!(one, run(10));
    assert_ne!(one.0, run(11).0);
}
