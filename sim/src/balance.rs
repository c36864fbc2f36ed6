//! Clients that stay where they are until they are told of others, as our own do: nodes that take in more than the others let
//! some go, so that all have the like, and then nobody goes anywhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::sim::{self, World};
use bucksaw_ingest::load_shedder::{ClientRate, ListenerKind, RedirectKind};
use bucksaw_ingest::{Durability, FrameRecords, Queue, Source};
use bucksaw_node::{Roles, load_control};
use bucksaw_record::{Id, Labels, Millis, Producer};

use crate::machine::Machine;
use crate::rng::SeededRng;
use crate::settings::NodeSettings;
use crate::sim_cluster::SimCluster;

const BOTH: Roles = Roles { ingest: true, store: true };

/// How often a client sends.
const TICK: Duration = Duration::from_millis(200);

/// A client looks whether it is its turn after so long, and up to twice as long, as `sources` lets it.
const REDIRECT_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// It follows no further suggestion for so long, as `forward` does.
const REDIRECT_INTERVAL_MIN: Duration = Duration::from_secs(60);

/// A node of which this is a 64th is not busy, and below it clients are let be.
const BUSY_BYTES_PER_SECOND_MIN: u64 = 4_000;

/// What a client brings, in bytes a second.
#[derive(Clone, Copy, Debug)]
enum ClientLoad {
    Steady(u64),
    /// Four times as much for a quarter of the time, for as long as chance will have it; nothing between.
    Bursts(u64),
}

type Queues = Arc<Mutex<BTreeMap<String, Arc<Queue>>>>;
type MoveLog = Arc<Mutex<Vec<(Duration, usize)>>>;

struct BalanceTest {
    world: World,
    fleet: SimCluster,
    clients: sim::Host,
    queues: Queues,
    /// When a client went from one node to another, and which.
    moves: MoveLog,
    count: usize,
}

impl BalanceTest {
    /// So many nodes, the last of which is not there yet.
    fn new(seed: u64, nodes: usize) -> Self {
        let world = World::new(seed);
        let names: Vec<String> = (0..nodes).map(|number| format!("n{number}")).collect();
        let join = names.iter().map(|name| format!("{name}:7659")).collect();
        let mut settings = NodeSettings::for_simulation(1, 0, join, None);
        settings.queue.segment_bytes_max = 128 << 10;
        settings.store.segment_bytes = 1 << 20;
        settings.store.block_bytes = 64 << 10;
        settings.load_control.busy_bytes_per_second =
            BUSY_BYTES_PER_SECOND_MIN * load_control::rebalancer::BUSY_FRACTION;
        let machine =
            |(number, name): (usize, &String)| Machine::new(world.add_host(name), number, BOTH, settings.clone());
        let machines = names.iter().enumerate().map(machine).collect();
        let clients = world.add_host("clients");
        let (queues, moves) = (Queues::default(), MoveLog::default());
        let mut field = Self { fleet: SimCluster::from_machines(machines, 1), world, clients, queues, moves, count: 0 };
        (0..nodes - 1).for_each(|number| field.start(number));
        field.world.run_for(Duration::from_secs(5));
        field
    }

    /// A node joins.
    fn start(&mut self, number: usize) {
        let machine = &mut self.fleet.machines[number];
        machine.start();
        let node = machine.node().unwrap();
        let name = format!("n{number}");
        node.cluster.update_facts(|facts| facts.clients.fast = Some(name.clone()));
        self.queues.lock().unwrap().insert(name, Arc::clone(&node.queue));
    }

    /// A client comes to a node.
    fn connect(&mut self, number: usize, load: ClientLoad) {
        let client = RedirectableClient {
            number: self.count,
            load,
            host: self.clients.clone(),
            queues: Arc::clone(&self.queues),
            moves: Arc::clone(&self.moves),
        };
        self.count += 1;
        self.clients.spawn(client.run(format!("n{number}")));
    }

    /// What each node takes in over some time, in bytes a second.
    fn rates(&self, time: Duration) -> Vec<u64> {
        let taken =
            || -> Vec<u64> { self.fleet.nodes().map(|(_, node)| node.queue.metrics().accepted_bytes()).collect() };
        let before = taken();
        self.world.run_for(time);
        let rate = |(after, before): (u64, u64)| (after - before) / time.as_secs();
        taken().into_iter().zip(before).map(rate).collect()
    }

    /// How many clients each node has.
    fn clients(&self) -> Vec<u64> {
        self.fleet.nodes().map(|(_, node)| node.queue.load_shedder().connections()).collect()
    }

    fn moves(&self) -> usize {
        self.moves.lock().unwrap().len()
    }

    fn run_for(&self, seconds: u64) {
        self.world.run_for(Duration::from_secs(seconds));
    }
}

struct RedirectableClient {
    number: usize,
    load: ClientLoad,
    host: sim::Host,
    queues: Queues,
    moves: MoveLog,
}

impl RedirectableClient {
    async fn run(self, mut at: String) {
        let rng = SeededRng::new(self.host.env().entropy.next_u64());
        let (mut sequence, mut moved_at) = (0, None);
        loop {
            let queue = self.queues.lock().unwrap().get(&at).cloned();
            let Some(queue) = queue else { return };
            at = self.send_until_redirected(&queue, &rng, &mut sequence, &mut moved_at).await;
            self.moves.lock().unwrap().push((self.host.env().clock.uptime(), self.number));
        }
    }

    /// Sends to a node until it is told of another, and follows.
    async fn send_until_redirected(
        &self,
        queue: &Queue,
        rng: &SeededRng,
        sequence: &mut u32,
        moved_at: &mut Option<Duration>,
    ) -> String {
        let (env, tasks, guide) = (self.host.env(), self.host.tasks(), queue.load_shedder());
        let (_connected, _movable) = (guide.count_connection(), guide.count_redirectable());
        let mut guest = ClientRate::new(env.clock.uptime());
        let mut look_at = env.clock.uptime() + rng.duration(REDIRECT_CHECK_INTERVAL, REDIRECT_CHECK_INTERVAL * 2);
        let (mut brought, mut bursts, mut turn_at) = (0, false, Duration::ZERO);
        loop {
            tasks.sleep(TICK).await;
            let now = env.clock.uptime();
            if now >= turn_at {
                bursts = rng.percent(25);
                turn_at = now + rng.duration(Duration::from_secs(1), Duration::from_secs(10));
            }
            let rate = match self.load {
                ClientLoad::Steady(rate) => rate,
                ClientLoad::Bursts(rate) => rate * 4 * u64::from(bursts),
            };
            brought += self.send(queue, sequence, rate * TICK.as_millis() as u64 / 1_000);
            if now < look_at {
                continue;
            }
            look_at = now + rng.duration(REDIRECT_CHECK_INTERVAL, REDIRECT_CHECK_INTERVAL * 2);
            let brings = guest.sample(now, brought);
            if !guest.may_be_redirected(now) {
                continue;
            }
            let told = guide.try_redirect(ListenerKind::Tcp(Durability::Fast), Some(brings), &*env.entropy);
            let Some((how, others)) = told else { continue };
            assert_eq!(how, RedirectKind::Suggested);
            guest.record_suggestion(now);
            if moved_at.is_none_or(|at| now - at >= REDIRECT_INTERVAL_MIN) {
                *moved_at = Some(now);
                return others[0].clone();
            }
        }
    }

    fn send(&self, queue: &Queue, sequence: &mut u32, bytes: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let now = Millis(self.host.env().clock.unix_ms());
        let text = format!("{}\n", "x".repeat(bytes as usize - 1));
        let labels = Labels::parse("app=sim").unwrap();
        let records = FrameRecords {
            source: Source::Forward,
            labels: &labels,
            first_id: Id::new(now, Producer::new(1_000 + self.number as u64), *sequence),
            count: 1,
            accepted: now,
            layout_bits: 0,
            row_meta: &[],
            text: &[text.as_bytes()],
        };
        *sequence += 1;
        queue.append(Durability::Fast, &records, |kept| assert!(kept.is_ok())).unwrap();
        bytes
    }
}

/// The share of the last node, of what it would have if all had the like.
fn share_of_last(rates: &[u64]) -> f64 {
    let fair = rates.iter().sum::<u64>() as f64 / rates.len() as f64;
    *rates.last().unwrap() as f64 / fair
}

/// Some seconds' mean.
const RATE_WINDOW: Duration = Duration::from_secs(10);

#[test]
fn a_node_that_joins_has_its_share_within_a_minute_and_then_all_is_quiet() {
    for (seed, before, each) in [(1, 1, 4), (2, 2, 6), (3, 3, 8), (4, 5, 4), (5, 8, 6)] {
        let mut field = BalanceTest::new(seed, before + 1);
        for client in 0..before * each {
            field.connect(client % before, ClientLoad::Steady(24_000 / each as u64));
        }
        field.run_for(120);
        assert_eq!(field.moves(), 0, "seed {seed}: all have the like");
        field.start(before);
        field.run_for(50);
        let share = share_of_last(&field.rates(RATE_WINDOW));
        assert!((0.6..1.5).contains(&share), "seed {seed}: {share:.2}, {:?}", field.clients());
        // What it lacked went to it, and little else went anywhere.
        field.run_for(120);
        let (fair, moves) = (before * each / (before + 1), field.moves());
        assert!(
            moves <= fair * 3 / 2 + 2,
            "seed {seed}: {moves} moves, where {fair} were needed: {:?}",
            field.clients()
        );
        field.run_for(300);
        assert_eq!(field.moves(), moves, "seed {seed}: {:?}", field.clients());
        let share = share_of_last(&field.rates(RATE_WINDOW));
        assert!((0.7..1.35).contains(&share), "seed {seed}: {share:.2}, {:?}", field.clients());
    }
}

#[test]
fn few_clients_that_cannot_be_divided_find_their_places_within_a_minute() {
    let mut late = Vec::new();
    for seed in 40..80 {
        let mut field = BalanceTest::new(seed, 4);
        for node in [0, 0, 0, 0, 1, 1, 2, 2] {
            field.connect(node, ClientLoad::Steady(3_000));
        }
        field.run_for(15);
        field.start(3);
        field.run_for(50);
        if field.rates(RATE_WINDOW).iter().any(|rate| *rate < 5_500) {
            late.push((seed, field.clients()));
        }
        field.run_for(120);
        assert_eq!(field.clients(), [2; 4], "seed {seed}");
    }
    // Who goes is left to chance, and who has just come from elsewhere stays.
    assert!(late.len() <= 3, "{} of 40 seeds: {late:?}", late.len());
}

#[test]
fn loads_that_come_and_go_keep_few_on_the_way() {
    for seed in 10..13 {
        let mut field = BalanceTest::new(seed, 5);
        field.start(4);
        for client in 0..100 {
            field.connect(client % 5, ClientLoad::Bursts(1_500));
        }
        field.run_for(60);
        let (before, minutes) = (field.moves(), 10);
        field.run_for(minutes * 60);
        let moves = field.moves() - before;
        // Of a hundred clients, each of which sends four times its mean or nothing, three a minute at most.
        assert!(moves <= 3 * minutes as usize, "seed {seed}: {moves} moves, {:?}", field.clients());
        assert!(field.clients().iter().all(|count| (10..=30).contains(count)), "seed {seed}: {:?}", field.clients());
    }
}

#[test]
fn clients_of_very_different_size_find_their_places() {
    for seed in 22..26 {
        let mut field = BalanceTest::new(seed, 4);
        // One that is more than a node's share by itself, some that are large, and many small ones, all in one place.
        field.connect(0, ClientLoad::Steady(40_000));
        (0..6).for_each(|_| field.connect(0, ClientLoad::Steady(8_000)));
        (0..12).for_each(|_| field.connect(0, ClientLoad::Steady(2_000)));
        (0..30).for_each(|_| field.connect(0, ClientLoad::Steady(50)));
        field.start(3);
        field.run_for(290);
        let moves = field.moves();
        let rates = field.rates(RATE_WINDOW);
        // The one cannot be divided: it is a third of all.
        assert!(rates.iter().all(|rate| *rate < 52_000), "seed {seed}: {rates:?}");
        assert!(rates.iter().filter(|rate| **rate > 10_000).count() == 4, "seed {seed}: {rates:?}");
        field.run_for(600);
        assert!(field.moves() <= moves + 1 && moves <= 30, "seed {seed}: {moves}, then {}", field.moves());
    }
}

#[test]
fn a_single_client_stays() {
    for load in [ClientLoad::Steady(30_000), ClientLoad::Bursts(30_000)] {
        let mut field = BalanceTest::new(30, 3);
        field.connect(0, load);
        field.start(2);
        field.run_for(600);
        assert_eq!((field.moves(), field.clients()), (0, vec![1, 0, 0]), "{load:?}");
    }
}

#[test]
fn an_idle_cluster_does_not_shuffle() {
    let mut field = BalanceTest::new(31, 3);
    for _ in 0..20 {
        field.connect(0, ClientLoad::Steady(BUSY_BYTES_PER_SECOND_MIN * 9 / 10 / 20));
    }
    field.start(2);
    field.run_for(600);
    assert_eq!((field.moves(), field.clients()), (0, vec![20, 0, 0]));
}
