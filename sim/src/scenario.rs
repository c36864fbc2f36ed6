//! What kind of run a seed makes.

use std::time::Duration;

use bucksaw_env::sim::{Delay, NetworkConditions};
use bucksaw_node::Roles;

use crate::fault_injector::{DESTROY, FAULTS, KILLS, LOSE_DISK, POWER};
use crate::rng::SeededRng;

/// What a run is like.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The roles of each node.
    pub roles: Vec<Roles>,
    /// Nodes that join late.
    pub late_joiners: Vec<usize>,
    /// The replication factor.
    pub copies: usize,
    /// Stores whose disks go bad or are lost; one fewer than there are copies.
    pub faulty_stores: Vec<usize>,
    /// Whether one of these is destroyed for good.
    pub destroys_store: bool,
    /// Whether the disk of one of these is lost, and an empty one comes in its place.
    pub loses_disk: bool,
    /// The node that leaves.
    pub leaver: Option<usize>,
    /// Room on a disk with which it counts as full, in bytes.
    pub reserve: u64,
    /// Clients that append.
    pub clients: usize,
    /// What goes wrong, by its number. In half of the runs it is little, and so the more often.
    pub faults: Vec<usize>,
    /// Draws, at each start of a machine, whether it runs the next version of the program; all run this one when there is none.
    pub version_seed: Option<u64>,
    /// Whether clients also send batches with idempotency keys.
    pub has_keyed_clients: bool,
    /// Draws which queue segments and lists of nodes go bad, and when descriptors run out; none do when there is none.
    pub damage_seed: Option<u64>,
    /// Whether queries and the store have next to no memory.
    pub has_little_memory: bool,
    /// For how long they do, and things go wrong.
    pub time: Duration,
    /// Time between two batches of a client.
    pub batch_interval: Duration,
    /// Time between two faults.
    pub fault_interval: Duration,
    /// The weather while things go wrong.
    pub conditions: NetworkConditions,
}

/// Faults that can be tried by themselves.
const SINGLE_FAULTS: [(&str, &[usize]); 2] = [("kill", &KILLS), ("power", &POWER)];

/// Time between two of these.
const SINGLE_FAULT_INTERVAL: Duration = Duration::from_secs(2);

const INGEST: Roles = Roles { ingest: true, store: false };
const STORE: Roles = Roles { ingest: false, store: true };
const BOTH: Roles = Roles { ingest: true, store: true };

impl Scenario {
    /// Draws one.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let rng = SeededRng::new(seed ^ 0x5ce2_a710);
        let mut roles: Vec<Roles> = match rng.below(3) {
            0 => vec![BOTH; rng.between(1, 4)],
            1 => [vec![INGEST; rng.between(1, 3)], vec![STORE; rng.between(1, 3)]].concat(),
            _ => [vec![INGEST; rng.between(0, 2)], vec![STORE; rng.between(0, 2)], vec![BOTH]].concat(),
        };
        let mut stores = matching_indices(&roles, |roles| roles.store);
        let copies = rng.between(1, stores.len().min(3));
        let count = stores.len();
        let victims: Vec<usize> = (1..copies).map(|_| stores.swap_remove(rng.below(stores.len()))).collect();
        let destroys = !victims.is_empty() && rng.percent(40);
        let empties = !victims.is_empty() && rng.percent(40);
        let mut late = Vec::new();
        if (destroys && count == copies) || rng.percent(20) {
            late.push(roles.len());
            roles.push(if rng.percent(50) { STORE } else { BOTH });
        }
        let ingest_only = matching_indices(&roles, |roles| roles.ingest && !roles.store);
        let leaver = rng.choose(&ingest_only).copied().filter(|_| rng.percent(40));
        let bad = rng.below(3);
        let share = |worst: f64| worst * bad as f64 / 2.0 * rng.below(100) as f64 / 100.0;
        let ms = Duration::from_millis;
        let weather = NetworkConditions {
            delay: Delay { tail_share: share(0.05), tail_max: ms(5_000), ..NetworkConditions::HEALTHY.delay },
            loss: share(0.3),
            duplication: share(0.2),
            break_share: share(0.1),
            stall_share: share(0.05),
            ..NetworkConditions::HEALTHY
        };
        Self {
            late_joiners: late,
            copies,
            faulty_stores: victims,
            destroys_store: destroys,
            loses_disk: empties,
            leaver,
            reserve: if rng.percent(50) { 128 << 10 } else { 0 },
            clients: rng.between(1, 3),
            faults: draw_faults(&rng, destroys, empties),
            version_seed: draw_version_seed(seed),
            has_keyed_clients: draw_keyed_clients(seed),
            damage_seed: draw_damage_seed(seed),
            has_little_memory: SeededRng::new(seed ^ 0x0074_6967_6874).percent(25),
            time: Duration::from_secs(rng.between(30, 120) as u64),
            batch_interval: ms(rng.between(50, 500) as u64),
            fault_interval: ms(rng.between(1_000, 20_000) as u64),
            roles,
            conditions: weather,
        }
    }

    /// The same with nothing going wrong but this, and that often.
    ///
    /// # Errors
    /// When there is no fault of this name.
    pub fn with_single_fault(self, name: &str) -> Result<Self, String> {
        let Some((_, faults)) = SINGLE_FAULTS.iter().find(|(known, _)| *known == name) else {
            let names: Vec<&str> = SINGLE_FAULTS.iter().map(|(name, _)| *name).collect();
            return Err(format!("unknown name {name}; known: {}", names.join(", ")));
        };
        let (destroys, empties, leaver, rots) = (false, false, None, None);
        let trouble = self.fault_interval.min(SINGLE_FAULT_INTERVAL);
        Ok(Self {
            faults: faults.to_vec(),
            destroys_store: destroys,
            loses_disk: empties,
            leaver,
            damage_seed: rots,
            fault_interval: trouble,
            ..self
        })
    }

    /// Five nodes that take in and store, two copies, and nothing goes wrong: what speed is measured by.
    #[must_use]
    pub fn healthy() -> Self {
        Self {
            roles: vec![BOTH; 5],
            late_joiners: Vec::new(),
            copies: 2,
            faulty_stores: Vec::new(),
            destroys_store: false,
            loses_disk: false,
            leaver: None,
            reserve: 0,
            clients: 3,
            faults: Vec::new(),
            version_seed: None,
            has_keyed_clients: false,
            damage_seed: None,
            has_little_memory: false,
            time: Duration::from_secs(600),
            batch_interval: Duration::from_secs(1),
            fault_interval: Duration::from_secs(3_600),
            conditions: NetworkConditions::HEALTHY,
        }
    }
}

/// In a third of the runs. By dice of their own, so that all else is as without.
fn draw_version_seed(seed: u64) -> Option<u64> {
    let rng = SeededRng::new(seed ^ 0x3e4_510);
    rng.percent(33).then(|| rng.next_u64())
}

/// In half of the runs. By dice of their own, so that the others are as without.
fn draw_keyed_clients(seed: u64) -> bool {
    SeededRng::new(seed ^ 0x006b_6579).percent(50)
}

/// In a third of the runs. By dice of their own, so that the others are as without.
fn draw_damage_seed(seed: u64) -> Option<u64> {
    let rng = SeededRng::new(seed ^ 0x0072_6f74);
    rng.percent(33).then(|| rng.next_u64())
}

/// All that can go wrong, or a few of it ("Swarm testing", Groce and others: what is left out lets the rest meet).
fn draw_faults(rng: &SeededRng, destroys: bool, empties: bool) -> Vec<usize> {
    if rng.percent(50) {
        return (0..FAULTS).collect();
    }
    let mut some: Vec<usize> = (0..rng.between(2, 4)).map(|_| rng.below(FAULTS)).collect();
    some.extend(destroys.then_some(DESTROY));
    some.extend(empties.then_some(LOSE_DISK));
    some
}

fn matching_indices(roles: &[Roles], wanted: impl Fn(&Roles) -> bool) -> Vec<usize> {
    roles.iter().enumerate().filter(|(_, roles)| wanted(roles)).map(|(at, _)| at).collect()
}
