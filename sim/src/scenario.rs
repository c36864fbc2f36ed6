//! What kind of run a seed makes.

use std::time::Duration;

use bucksaw_doors::sim::{Delay, Weather};
use bucksaw_node::Roles;

use crate::chance::Chance;
use crate::faults::{DESTROY, EMPTY, FAULTS, KILLS, POWER};

/// What a run is like.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The roles of each node.
    pub roles: Vec<Roles>,
    /// Nodes that join late.
    pub late: Vec<usize>,
    /// The replication factor.
    pub copies: usize,
    /// Stores whose disks go bad or are lost; one fewer than there are copies.
    pub victims: Vec<usize>,
    /// Whether one of these is destroyed for good.
    pub destroys: bool,
    /// Whether the disk of one of these is lost, and an empty one comes in its place.
    pub empties: bool,
    /// The node that leaves.
    pub leaver: Option<usize>,
    /// Room on a disk with which it counts as full, in bytes.
    pub reserve: u64,
    /// Clients that append.
    pub clients: usize,
    /// What goes wrong, by its number. In half of the runs it is little, and so the more often.
    pub faults: Vec<usize>,
    /// Draws, at each start of a machine, whether it runs the next version of the program; all run this one when there is none.
    pub mixes: Option<u64>,
    /// Whether clients also send batches with idempotency keys.
    pub keyed: bool,
    /// Draws which queue segments and lists of nodes go bad, and when descriptors run out; none do when there is none.
    pub rots: Option<u64>,
    /// Whether queries and the shelf have next to no memory.
    pub is_tight: bool,
    /// For how long they do, and things go wrong.
    pub time: Duration,
    /// Time between two batches of a client.
    pub pace: Duration,
    /// Time between two faults.
    pub trouble: Duration,
    /// The weather while things go wrong.
    pub weather: Weather,
}

/// Faults that can be tried by themselves.
const ONLY: [(&str, &[usize]); 2] = [("kill", &KILLS), ("power", &POWER)];

/// Time between two of these.
const ONLY_EVERY: Duration = Duration::from_secs(2);

const INGEST: Roles = Roles { ingest: true, store: false };
const STORE: Roles = Roles { ingest: false, store: true };
const BOTH: Roles = Roles { ingest: true, store: true };

impl Scenario {
    /// Draws one.
    #[must_use]
    pub fn drawn(seed: u64) -> Self {
        let chance = Chance::new(seed ^ 0x5ce2_a710);
        let mut roles: Vec<Roles> = match chance.below(3) {
            0 => vec![BOTH; chance.within(1, 4)],
            1 => [vec![INGEST; chance.within(1, 3)], vec![STORE; chance.within(1, 3)]].concat(),
            _ => [vec![INGEST; chance.within(0, 2)], vec![STORE; chance.within(0, 2)], vec![BOTH]].concat(),
        };
        let mut stores = numbers(&roles, |roles| roles.store);
        let copies = chance.within(1, stores.len().min(3));
        let count = stores.len();
        let victims: Vec<usize> = (1..copies).map(|_| stores.swap_remove(chance.below(stores.len()))).collect();
        let destroys = !victims.is_empty() && chance.percent(40);
        let empties = !victims.is_empty() && chance.percent(40);
        let mut late = Vec::new();
        if (destroys && count == copies) || chance.percent(20) {
            late.push(roles.len());
            roles.push(if chance.percent(50) { STORE } else { BOTH });
        }
        let ingest_only = numbers(&roles, |roles| roles.ingest && !roles.store);
        let leaver = chance.one(&ingest_only).copied().filter(|_| chance.percent(40));
        let bad = chance.below(3);
        let share = |worst: f64| worst * bad as f64 / 2.0 * chance.below(100) as f64 / 100.0;
        let ms = Duration::from_millis;
        let weather = Weather {
            delay: Delay { late: share(0.05), late_most: ms(5_000), ..Weather::CALM.delay },
            loss: share(0.3),
            twice: share(0.2),
            breaks: share(0.1),
            stalls: share(0.05),
            ..Weather::CALM
        };
        Self {
            late,
            copies,
            victims,
            destroys,
            empties,
            leaver,
            reserve: if chance.percent(50) { 128 << 10 } else { 0 },
            clients: chance.within(1, 3),
            faults: faults(&chance, destroys, empties),
            mixes: mixes(seed),
            keyed: keyed(seed),
            rots: rots(seed),
            is_tight: Chance::new(seed ^ 0x0074_6967_6874).percent(25),
            time: Duration::from_secs(chance.within(30, 120) as u64),
            pace: ms(chance.within(50, 500) as u64),
            trouble: ms(chance.within(1_000, 20_000) as u64),
            roles,
            weather,
        }
    }

    /// The same with nothing going wrong but this, and that often.
    ///
    /// # Errors
    /// When there is no fault of this name.
    pub fn only(self, name: &str) -> Result<Self, String> {
        let Some((_, faults)) = ONLY.iter().find(|(known, _)| *known == name) else {
            let names: Vec<&str> = ONLY.iter().map(|(name, _)| *name).collect();
            return Err(format!("there is no {name}: {}", names.join(", ")));
        };
        let (destroys, empties, leaver, rots) = (false, false, None, None);
        let trouble = self.trouble.min(ONLY_EVERY);
        Ok(Self { faults: faults.to_vec(), destroys, empties, leaver, rots, trouble, ..self })
    }

    /// Five nodes that take in and store, two copies, and nothing goes wrong: what speed is measured by.
    #[must_use]
    pub fn calm() -> Self {
        Self {
            roles: vec![BOTH; 5],
            late: Vec::new(),
            copies: 2,
            victims: Vec::new(),
            destroys: false,
            empties: false,
            leaver: None,
            reserve: 0,
            clients: 3,
            faults: Vec::new(),
            mixes: None,
            keyed: false,
            rots: None,
            is_tight: false,
            time: Duration::from_secs(600),
            pace: Duration::from_secs(1),
            trouble: Duration::from_secs(3_600),
            weather: Weather::CALM,
        }
    }
}

/// In a third of the runs. By dice of their own, so that all else is as without.
fn mixes(seed: u64) -> Option<u64> {
    let chance = Chance::new(seed ^ 0x3e4_510);
    chance.percent(33).then(|| chance.any())
}

/// In half of the runs. By dice of their own, so that the others are as without.
fn keyed(seed: u64) -> bool {
    Chance::new(seed ^ 0x006b_6579).percent(50)
}

/// In a third of the runs. By dice of their own, so that the others are as without.
fn rots(seed: u64) -> Option<u64> {
    let chance = Chance::new(seed ^ 0x0072_6f74);
    chance.percent(33).then(|| chance.any())
}

/// All that can go wrong, or a few of it ("Swarm testing", Groce and others: what is left out lets the rest meet).
fn faults(chance: &Chance, destroys: bool, empties: bool) -> Vec<usize> {
    if chance.percent(50) {
        return (0..FAULTS).collect();
    }
    let mut some: Vec<usize> = (0..chance.within(2, 4)).map(|_| chance.below(FAULTS)).collect();
    some.extend(destroys.then_some(DESTROY));
    some.extend(empties.then_some(EMPTY));
    some
}

fn numbers(roles: &[Roles], wanted: impl Fn(&Roles) -> bool) -> Vec<usize> {
    roles.iter().enumerate().filter(|(_, roles)| wanted(roles)).map(|(at, _)| at).collect()
}
