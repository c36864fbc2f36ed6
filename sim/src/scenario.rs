//! The scenario of a run, drawn from its seed.

use std::time::Duration;

use bucksaw_env::sim::{Delay, NetworkConditions};
use bucksaw_node::Roles;
use bucksaw_segment::Codec;

use crate::fault_kind::{DESTROY, FAULTS, KILLS, LOSE_DISK, POWER};
use crate::rng::SeededRng;
use crate::settings::SMALL_COLUMNS;

/// The size, roles, faults and conditions of a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The roles of each node.
    pub roles: Vec<Roles>,
    /// Nodes that join late.
    pub late_joiners: Vec<usize>,
    /// The replication factor.
    pub copies: usize,
    /// Stores whose disks are damaged or lost; one fewer than the replication factor.
    pub faulty_stores: Vec<usize>,
    /// Whether one of them is destroyed.
    pub destroys_store: bool,
    /// Whether the disk of one of them is replaced by an empty one.
    pub loses_disk: bool,
    /// The node that leaves for good.
    pub leaver: Option<usize>,
    /// Free bytes below which a disk counts as full.
    pub reserve: u64,
    /// Appending clients.
    pub clients: usize,
    /// The numbers of the faults. Half of the runs have few kinds, each more often.
    pub faults: Vec<usize>,
    /// Draws the program version at each start of a machine; `None` for the current one.
    pub version_seed: Option<u64>,
    /// Whether clients also send batches with idempotency keys.
    pub has_keyed_clients: bool,
    /// Draws damage to queue segments and member files, and shortages of descriptors; `None` for none.
    pub damage_seed: Option<u64>,
    /// Whether the disks are encrypted.
    pub is_encrypted: bool,
    /// The codec of batches from the queue.
    pub quick_codec: Codec,
    /// Whether some records are erased.
    pub erases: bool,
    /// Whether queries have minimal memory.
    pub has_little_memory: bool,
    /// How long clients append and faults occur.
    pub time: Duration,
    /// Interval of the batches of a client.
    pub batch_interval: Duration,
    /// Interval of the faults.
    pub fault_interval: Duration,
    /// The network conditions during the faults.
    pub conditions: NetworkConditions,
}

/// Faults that can be selected alone.
const SINGLE_FAULTS: [(&str, &[usize]); 2] = [("kill", &KILLS), ("power", &POWER)];

/// Maximum interval of a selected fault.
const SINGLE_FAULT_INTERVAL: Duration = Duration::from_secs(2);

const INGEST: Roles = Roles { ingest: true, store: false };
const STORE: Roles = Roles { ingest: false, store: true };
const BOTH: Roles = Roles { ingest: true, store: true };

impl Scenario {
    /// The scenario of a seed.
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
        let faulty_stores: Vec<usize> = (1..copies).map(|_| stores.swap_remove(rng.below(stores.len()))).collect();
        let destroys_store = !faulty_stores.is_empty() && rng.percent(40);
        let loses_disk = !faulty_stores.is_empty() && rng.percent(40);
        let mut late_joiners = Vec::new();
        if (destroys_store && count == copies) || rng.percent(20) {
            late_joiners.push(roles.len());
            roles.push(if rng.percent(50) { STORE } else { BOTH });
        }
        let ingest_only = matching_indices(&roles, |roles| roles.ingest && !roles.store);
        let leaver = rng.choose(&ingest_only).copied().filter(|_| rng.percent(40));
        let severity = rng.below(3);
        let share = |worst: f64| worst * severity as f64 / 2.0 * rng.below(100) as f64 / 100.0;
        let ms = Duration::from_millis;
        let conditions = NetworkConditions {
            delay: Delay { tail_share: share(0.05), tail_max: ms(5_000), ..NetworkConditions::HEALTHY.delay },
            loss: share(0.3),
            duplication: share(0.2),
            break_share: share(0.1),
            stall_share: share(0.05),
            ..NetworkConditions::HEALTHY
        };
        Self {
            late_joiners,
            copies,
            faulty_stores,
            destroys_store,
            loses_disk,
            leaver,
            reserve: if rng.percent(50) { 128 << 10 } else { 0 },
            clients: rng.between(1, 3),
            faults: draw_faults(&rng, destroys_store, loses_disk),
            version_seed: draw_version_seed(seed),
            has_keyed_clients: draw_keyed_clients(seed),
            damage_seed: draw_damage_seed(seed),
            is_encrypted: SeededRng::new(seed ^ 0x0063_7279_7074).percent(25),
            quick_codec: draw_quick_codec(seed),
            erases: SeededRng::new(seed ^ 0x6572_6173).percent(40),
            has_little_memory: SeededRng::new(seed ^ 0x0074_6967_6874).percent(25),
            time: Duration::from_secs(rng.between(30, 120) as u64),
            batch_interval: ms(rng.between(50, 500) as u64),
            fault_interval: ms(rng.between(1_000, 20_000) as u64),
            roles,
            conditions,
        }
    }

    /// The same with a single, frequent fault.
    ///
    /// # Errors
    /// If no fault has this name.
    pub fn with_single_fault(self, name: &str) -> Result<Self, String> {
        let Some((_, faults)) = SINGLE_FAULTS.iter().find(|(known, _)| *known == name) else {
            let names: Vec<&str> = SINGLE_FAULTS.iter().map(|(name, _)| *name).collect();
            return Err(format!("unknown name {name}; known: {}", names.join(", ")));
        };
        Ok(Self {
            faults: faults.to_vec(),
            destroys_store: false,
            loses_disk: false,
            leaver: None,
            damage_seed: None,
            fault_interval: self.fault_interval.min(SINGLE_FAULT_INTERVAL),
            ..self
        })
    }

    /// Five nodes with both roles, two replicas and no faults, to measure the speed of the simulation.
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
            is_encrypted: false,
            quick_codec: SMALL_COLUMNS,
            erases: false,
            has_little_memory: false,
            time: Duration::from_secs(600),
            batch_interval: Duration::from_secs(1),
            fault_interval: Duration::from_secs(3_600),
            conditions: NetworkConditions::HEALTHY,
        }
    }
}

// Each of these has its own random numbers, so that the rest of the scenario does not depend on it.

/// In a third of the runs.
fn draw_version_seed(seed: u64) -> Option<u64> {
    let rng = SeededRng::new(seed ^ 0x3e4_510);
    rng.percent(33).then(|| rng.next_u64())
}

/// In half of the runs.
fn draw_keyed_clients(seed: u64) -> bool {
    SeededRng::new(seed ^ 0x006b_6579).percent(50)
}

/// In a third of the runs.
fn draw_damage_seed(seed: u64) -> Option<u64> {
    let rng = SeededRng::new(seed ^ 0x0072_6f74);
    rng.percent(33).then(|| rng.next_u64())
}

/// Columns in three quarters of the runs, else LZ4. Both are recompressed as columns.
fn draw_quick_codec(seed: u64) -> Codec {
    if SeededRng::new(seed ^ 0x636f_6465).percent(75) { SMALL_COLUMNS } else { Codec::Lz4 }
}

/// All faults or a few: fewer kinds combine more often ("Swarm testing", Groce and others).
fn draw_faults(rng: &SeededRng, destroys_store: bool, loses_disk: bool) -> Vec<usize> {
    if rng.percent(50) {
        return (0..FAULTS).collect();
    }
    let mut faults: Vec<usize> = (0..rng.between(2, 4)).map(|_| rng.below(FAULTS)).collect();
    faults.extend(destroys_store.then_some(DESTROY));
    faults.extend(loses_disk.then_some(LOSE_DISK));
    faults
}

fn matching_indices(roles: &[Roles], wanted: impl Fn(&Roles) -> bool) -> Vec<usize> {
    roles.iter().enumerate().filter(|(_, roles)| wanted(roles)).map(|(at, _)| at).collect()
}
