//! What kind of run a seed makes.

use std::time::Duration;

use bucksaw_doors::sim::{Delay, Weather};
use bucksaw_node::Roles;

use crate::chance::Chance;

/// What a run is like.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The roles of each node.
    pub roles: Vec<Roles>,
    /// The replication factor.
    pub copies: usize,
    /// Clients that append.
    pub clients: usize,
    /// For how long they do, and things go wrong.
    pub time: Duration,
    /// Time between two batches of a client.
    pub pace: Duration,
    /// Time between two faults.
    pub trouble: Duration,
    /// The weather while things go wrong.
    pub weather: Weather,
}

const INGEST: Roles = Roles { ingest: true, store: false };
const STORE: Roles = Roles { ingest: false, store: true };
const BOTH: Roles = Roles { ingest: true, store: true };

impl Scenario {
    /// Draws one.
    #[must_use]
    pub fn drawn(seed: u64) -> Self {
        let chance = Chance::new(seed ^ 0x5ce2_a710);
        let roles: Vec<Roles> = match chance.below(3) {
            0 => vec![BOTH; chance.within(1, 4)],
            1 => [vec![INGEST; chance.within(1, 3)], vec![STORE; chance.within(1, 3)]].concat(),
            _ => [vec![INGEST; chance.within(0, 2)], vec![STORE; chance.within(0, 2)], vec![BOTH]].concat(),
        };
        let stores = roles.iter().filter(|roles| roles.store).count();
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
            copies: chance.within(1, stores.min(3)),
            clients: chance.within(1, 3),
            time: Duration::from_secs(chance.within(30, 120) as u64),
            pace: ms(chance.within(50, 500) as u64),
            trouble: ms(chance.within(1_000, 20_000) as u64),
            roles,
            weather,
        }
    }
}
