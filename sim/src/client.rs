//! Clients: each sends batches to nodes that take records in, and sends again, to another, what it is not sure of, with the
//! same ids.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bucksaw_doors::{sim, within};
use bucksaw_ingest::Durability;
use bucksaw_ingest::handover::{message, read_message};
use bucksaw_record::{Id, Millis, Producer};

use crate::chance::Chance;
use crate::ledger::Ledger;
use crate::machine::{APPEND, Append, Appended};

/// How long a client waits for an answer. `bulk` takes as long as storing does.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_BULK: Duration = Duration::from_secs(90);

/// After so many tries it gives up on a batch.
const TRIES: usize = 4;

/// What a client needs.
pub(crate) struct Client {
    pub(crate) host: sim::Node,
    pub(crate) number: usize,
    pub(crate) seed: u64,
    pub(crate) pace: Duration,
    /// The nodes that take records in, by their numbers.
    pub(crate) nodes: Vec<(usize, SocketAddr)>,
    pub(crate) ledger: Ledger,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Client {
    /// Sends until it is told to stop.
    pub(crate) async fn run(self) {
        let chance = Chance::new(self.seed);
        let tasks = self.host.tasks();
        let mut sequence = 0;
        while !self.stop.load(Ordering::Relaxed) {
            tasks.sleep(chance.time(self.pace / 2, self.pace * 2)).await;
            let durability = match chance.below(10) {
                0 => Durability::Bulk,
                1..=5 => Durability::Durable,
                _ => Durability::Fast,
            };
            let count = chance.within(1, 4) as u32;
            let now = Millis(self.host.doors().clock.unix_ms());
            let first = Id::new(now, Producer::new(1_000 + self.number as u64), sequence);
            sequence += count;
            let batch = self.batch(&chance, first, count, durability);
            if durability == Durability::Bulk {
                // It takes long, and others need not wait for it.
                let one = self.one();
                let seed = chance.any();
                self.host.spawn(async move { one.send(batch, durability, &Chance::new(seed)).await });
            } else {
                self.one().send(batch, durability, &chance).await;
            }
        }
    }

    fn one(&self) -> Sender {
        Sender { host: self.host.clone(), nodes: self.nodes.clone(), ledger: self.ledger.clone() }
    }

    fn batch(&self, chance: &Chance, first: Id, count: u32, durability: Durability) -> Append {
        let lines = (0..count).filter_map(|at| {
            let id = first.step(at)?;
            let padding = "x".repeat(chance.below(chance.within(1, 300)));
            let line = format!("client {} record {} {padding}", self.number, id.sequence());
            self.ledger.send(id, line.clone(), durability);
            Some(line)
        });
        Append { first, durability: durability.name().to_owned(), lines: lines.collect() }
    }
}

struct Sender {
    host: sim::Node,
    nodes: Vec<(usize, SocketAddr)>,
    ledger: Ledger,
}

impl Sender {
    async fn send(&self, batch: Append, durability: Durability, chance: &Chance) {
        let (tasks, net) = (self.host.tasks(), self.host.net());
        let ids: Vec<Id> = (0..batch.lines.len() as u32).filter_map(|at| batch.first.step(at)).collect();
        let patience = if durability == Durability::Bulk { PATIENCE_BULK } else { PATIENCE };
        let mut all_refused = true;
        for _ in 0..TRIES {
            let Some((node, address)) = chance.one(&self.nodes) else { return };
            self.ledger.tried(&ids);
            let call = async { read_message::<Appended>(net.call(*address, APPEND, message(&batch)?).await?).await };
            match within(&tasks, patience, call).await {
                Some(Ok(Appended::Kept)) => return self.ledger.acknowledged(&ids, *node),
                Some(Ok(Appended::Refused)) if all_refused => self.ledger.refused(&ids),
                Some(Ok(Appended::Refused)) => {}
                Some(Ok(Appended::Unknown) | Err(_)) | None => all_refused = false,
            }
            tasks.sleep(chance.time(Duration::from_millis(100), Duration::from_secs(2))).await;
        }
    }
}
