//! Nodes are upgraded one after the other under load, and taken back, in a world where all else is well: nothing is lost,
//! doubled or refused, and every answer is whole. Versions that are not neighbours keep apart, and say so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bucksaw_doors::sim::{self, World};
use bucksaw_doors::within;
use bucksaw_ingest::Durability;
use bucksaw_ingest::handover::{message, read_message};
use bucksaw_node::Roles;
use bucksaw_query::{Request, Stretch};
use bucksaw_record::{Expr, Id, Millis, Producer};

use crate::append::{APPEND, Append, Appended};
use crate::check;
use crate::edition::Edition;
use crate::fleet::Fleet;
use crate::ledger::{Fate, Ledger};
use crate::machine::{Machine, Stopped};
use crate::settings::Settings;

const INGEST: Roles = Roles { ingest: true, store: false };
const STORE: Roles = Roles { ingest: false, store: true };
const COPIES: usize = 2;

/// Lines of a batch, how long a writer waits for its answer, and between two tries.
const LINES: u32 = 5;
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(300);

/// A node that stops in good order gives its queue away first.
const STOPPED: Duration = Duration::from_secs(60);

/// Nodes that are started know each other, and what was in the way is stored, within so much time.
const SETTLED: Duration = Duration::from_secs(60);

struct Bench {
    world: World,
    fleet: Fleet,
    ledger: Ledger,
    stop: Arc<AtomicBool>,
}

impl Bench {
    /// Nodes of the present version, and clients that write to those that take in.
    fn new(seed: u64, roles: &[Roles]) -> Self {
        let world = World::new(seed);
        let names: Vec<String> = (0..roles.len()).map(|number| format!("n{number}")).collect();
        let join = names.iter().map(|name| format!("{name}:7659")).collect();
        let settings = Settings::small(COPIES, 0, join, None);
        let machines = names.iter().zip(roles).enumerate();
        let machines =
            machines.map(|(at, (name, roles))| Machine::new(world.add_node(name), at, *roles, settings.clone()));
        let fleet = Fleet::of(machines.collect(), COPIES);
        let mut bench = Self { fleet, world, ledger: Ledger::default(), stop: Arc::default() };
        bench.fleet.start_all();
        bench.settle();
        bench
    }

    fn write(&self) {
        let ingest = self.fleet.machines.iter().enumerate().filter(|(_, machine)| machine.roles.ingest);
        let nodes: Vec<_> = ingest.map(|(at, machine)| (at, machine.host.address())).collect();
        for (number, durability) in (0..).zip([Durability::Fast, Durability::Durable, Durability::Bulk]) {
            let host = self.world.add_node(&format!("c{number}"));
            let (ledger, stop, nodes) = (self.ledger.clone(), Arc::clone(&self.stop), nodes.clone());
            host.clone().spawn(async move { write(&host, number, durability, &nodes, &ledger, &stop).await });
        }
    }

    /// Stops a machine in good order and starts it as another version.
    fn change(&mut self, at: usize, edition: Edition) {
        self.fleet.machines[at].stop(true);
        let until = self.world.now() + STOPPED;
        let stopped = loop {
            if let Some(stopped) = self.fleet.machines[at].has_stopped() {
                break stopped;
            }
            assert!(self.world.now() < until, "n{at} does not stop");
            self.pass(1);
        };
        if stopped == Stopped::Empty {
            // Those that are left answer for all.
            self.ask_all();
        }
        self.fleet.machines[at].upgrade(edition);
        self.fleet.machines[at].start();
    }

    fn pass(&self, seconds: u64) {
        self.world.run_for(Duration::from_secs(seconds));
    }

    /// Lets time pass until all nodes see each other.
    fn settle(&self) {
        assert!(
            self.world.run_until(|| check::agreed(&self.fleet).is_empty(), SETTLED),
            "{:?}",
            check::agreed(&self.fleet)
        );
    }

    /// Asks every node for everything: what was acknowledged before is in each answer, once, and each says that it is whole.
    fn ask_all(&self) {
        let running = self.fleet.machines.iter().enumerate();
        for (at, scatter) in running.filter_map(|(at, machine)| Some((at, machine.scatter()?))) {
            let due = self.ledger.due();
            let mut answer = scatter.search(&Request::new(Expr::All, Millis(0), Millis::MAX)).unwrap();
            let (found, stats) = self.world.block_on(async {
                let mut found: Vec<(Id, Arc<str>)> = Vec::new();
                loop {
                    let records = answer.next().await;
                    if records.is_empty() {
                        return (found, answer.stats());
                    }
                    for record in records.iter().flat_map(Stretch::records) {
                        found.push((record.id, String::from_utf8_lossy(record.text).into()));
                    }
                }
            });
            assert!(
                !stats.is_partial() && stats.nodes.missing.iter().all(|node| node.why.word() == "down"),
                "n{at}: {stats:?}"
            );
            assert_eq!(self.ledger.check(&due, &found), []);
            let (count, counted) =
                self.world.block_on(scatter.count(&Request::new(Expr::All, Millis(0), Millis::MAX))).unwrap();
            assert!(!counted.is_partial() && count >= due.len() as u64, "n{at}: {count} of {}, {counted:?}", due.len());
        }
    }

    /// Ends the load: everything was acknowledged, and is kept as often as promised.
    fn end(&self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        self.pass(30);
        assert!(self.world.run_until(|| self.fleet.waiting() == 0, SETTLED));
        self.ask_all();
        assert_eq!(check::stored(&self.fleet, &self.ledger), []);
        let known = self.ledger.known();
        let other = known.entries.values().filter(|entry| entry.fate != Fate::Acknowledged).count();
        assert_eq!(other, 0, "records that were refused, or nobody knows of");
        known.entries.len()
    }

    /// What a node says of others that it does not work with.
    fn apart(&self, at: usize) -> Vec<String> {
        let node = self.fleet.machines[at].node().unwrap();
        node.cluster.members().iter().filter_map(|member| member.apart.clone()).collect()
    }

    /// Records on a machine's shelf.
    fn stored(&self, at: usize) -> u64 {
        let segments = self.fleet.machines[at].node().unwrap().shelf.segments();
        segments.iter().map(|segment| segment.reach().records).sum()
    }

    /// How long the oldest records have waited in a machine's queue, in seconds.
    fn oldest(&self, at: usize) -> u64 {
        self.fleet.machines[at].node().unwrap().queue.backlog().oldest.as_secs()
    }
}

/// Writes batches until it is stopped, each to one node after the other until it is acknowledged, as `forward` does.
async fn write(
    host: &sim::Node,
    number: u64,
    durability: Durability,
    nodes: &[(usize, SocketAddr)],
    ledger: &Ledger,
    stop: &AtomicBool,
) {
    let (tasks, net, mut sequence, mut turn) = (host.tasks(), host.net(), 0, number as usize);
    while !stop.load(Ordering::Relaxed) {
        let now = Millis(host.doors().clock.unix_ms());
        let first = Id::new(now, Producer::new(1_000 + number), sequence);
        let ids: Vec<Id> = (0..LINES).filter_map(|at| first.step(at)).collect();
        sequence += LINES;
        let lines: Vec<String> = ids.iter().map(|id| format!("writer {number} record {}", id.sequence())).collect();
        ids.iter().zip(&lines).for_each(|(id, line)| ledger.send(*id, line.clone(), durability));
        ledger.tried(&ids);
        let batch = Append { first, durability: durability.name().to_owned(), lines, key: None };
        loop {
            let (node, address) = nodes[turn % nodes.len()];
            let call = async { read_message::<Appended>(net.call(address, APPEND, message(&batch)?).await?).await };
            turn += 1;
            if let Some(Ok(Appended::Kept { cuts })) = within(&tasks, PATIENCE, call).await {
                ledger.acknowledged(&ids, node, cuts);
                break;
            }
            tasks.sleep(PAUSE).await;
        }
        tasks.sleep(PAUSE).await;
    }
}

#[test]
fn a_rolling_upgrade_and_the_way_back_lose_double_and_refuse_nothing() {
    for (seed, roles) in
        [(1, [INGEST, INGEST, STORE, STORE, STORE].as_slice()), (2, &[Roles { ingest: true, store: true }; 4])]
    {
        let mut bench = Bench::new(seed, roles);
        bench.write();
        bench.pass(10);
        // Upwards those that store come first, as it is told to operators; back, last.
        let up: Vec<usize> = (0..roles.len()).rev().collect();
        let steps = up.iter().map(|at| (*at, Edition::Next)).chain(up.iter().rev().map(|at| (*at, Edition::Present)));
        for (at, edition) in steps {
            bench.change(at, edition);
            bench.settle();
            bench.pass(6);
            bench.ask_all();
            assert!((0..roles.len()).all(|at| bench.apart(at).is_empty()));
        }
        let records = bench.end();
        assert!(records > 500, "{records}");
    }
}

#[test]
fn a_version_that_is_no_neighbour_keeps_apart_and_loses_nothing() {
    let mut bench = Bench::new(3, &[INGEST, INGEST, STORE, STORE, STORE]);
    bench.write();
    bench.pass(10);
    bench.change(1, Edition::AfterNext);
    bench.change(4, Edition::AfterNext);
    bench.settle();
    bench.pass(5);
    let words = "speaks version 1.2 of what nodes say to each other, and this node 1.0: nothing is taken from it, and no copy \
                 given to it, until the versions are neighbours";
    assert_eq!(bench.apart(0), [words, words]);
    assert_eq!(bench.apart(4).len(), 3, "and the other way round");
    let stored = bench.stored(4);
    bench.pass(20);
    assert_eq!(bench.stored(4), stored, "it is given no copies, and has nobody to give any to");
    let waits = [0, 1].map(|at| bench.oldest(at));
    assert!(waits[0] < 15 && waits[1] > 20, "its queue is not taken from: {waits:?}");
    bench.ask_all();
    // By one version at a time they are neighbours again, and what waited is stored.
    bench.change(1, Edition::Next);
    bench.change(4, Edition::Next);
    bench.settle();
    bench.pass(20);
    assert!((0..5).all(|at| bench.apart(at).is_empty()));
    bench.end();
}

#[test]
fn what_a_store_cannot_read_is_not_handed_to_it() {
    let mut bench = Bench::new(4, &[INGEST, STORE, STORE, STORE]);
    bench.write();
    bench.pass(10);
    bench.change(3, Edition::Hasty);
    bench.settle();
    bench.pass(5);
    let reads = "stores segments of format 2, and this node reads them up to 1: it gives this node no copies";
    assert_eq!((bench.apart(0), bench.apart(1)), (Vec::<String>::new(), vec![reads.to_owned()]));
    let given = "meets segments stored by this node of format 2, and it reads them up to 1: it is given no copies";
    assert_eq!(bench.apart(3), [given, given]);
    let before = bench.stored(3);
    bench.pass(30);
    assert!(bench.stored(3) > before, "it reads what the others write, and is given copies");
    bench.ask_all();
    // As soon as the others read the new format it gives them copies.
    bench.change(1, Edition::Next);
    bench.change(2, Edition::Next);
    bench.settle();
    bench.pass(10);
    assert!((0..4).all(|at| bench.apart(at).is_empty()));
    bench.end();
}
