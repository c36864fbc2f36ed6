//! Clients: each sends batches to nodes that take records in, and sends again, to another, what it is not sure of, with the
//! same ids. Some of their batches have idempotency keys: a node numbers these, and a client sends them again with the same key,
//! also when they were acknowledged.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bucksaw_doors::{sim, within};
use bucksaw_ingest::Durability;
use bucksaw_ingest::handover::{message, read_message};
use bucksaw_record::{Id, Millis, Producer};

use crate::append::{APPEND, Append, Appended};
use crate::chance::Chance;
use crate::ledger::Ledger;
use crate::plant::Mutation;

/// How long a client waits for an answer. `bulk` takes as long as storing does.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_BULK: Duration = Duration::from_secs(90);

/// After so many tries it gives up on a batch.
const TRIES: usize = 4;

/// A batch with a key is sent so many times at most.
const KEYED_TRIES: usize = 5;

/// Of a hundred batches with a key, the number whose key another batch has, too.
const REUSED_PERCENT: usize = 30;

/// Of a hundred tries of such a batch, the number that are of the other.
const OTHER_PERCENT: usize = 40;

/// Of a hundred tries, the number that are answered only after the next was begun.
const AT_ONCE_PERCENT: usize = 20;

/// Of a hundred mutated tries so many are.
const MUTATED_PERCENT: usize = 20;

/// What a client needs.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) host: sim::Node,
    pub(crate) number: usize,
    pub(crate) seed: u64,
    pub(crate) pace: Duration,
    /// The nodes that take records in, by their numbers.
    pub(crate) nodes: Vec<(usize, SocketAddr)>,
    pub(crate) ledger: Ledger,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) planted: Option<Mutation>,
}

impl Client {
    /// Sends until it is told to stop.
    pub(crate) async fn run(self) {
        let chance = Chance::new(self.seed);
        let tasks = self.host.tasks();
        let (mut sequence, mut last) = (0, None);
        while !self.stop.load(Ordering::Relaxed) {
            tasks.sleep(chance.time(self.pace / 2, self.pace * 2)).await;
            let durability = match chance.below(10) {
                0 => Durability::Bulk,
                1..=5 => Durability::Durable,
                _ => Durability::Fast,
            };
            let count = chance.within(1, 4) as u32;
            let now = Millis(self.host.doors().clock.unix_ms());
            let first = Id::new(now, producer(self.number), sequence);
            sequence += count;
            let mut batch = self.batch(&chance, first, count, durability);
            if self.planted == Some(Mutation::OneIdForTwo) && chance.percent(MUTATED_PERCENT) {
                batch.first = last.unwrap_or(first);
            }
            last = Some(batch.first);
            if durability == Durability::Bulk {
                // It takes long, and others need not wait for it.
                let (client, seed) = (self.clone(), chance.any());
                self.host.spawn(async move {
                    client.send(batch, durability, &Chance::new(seed)).await;
                });
            } else {
                self.send(batch, durability, &chance).await;
            }
        }
    }

    /// Sends batches with keys until it is told to stop.
    pub(crate) async fn run_keyed(self) {
        let chance = Chance::new(self.seed ^ 0x6b65_7973);
        let tasks = self.host.tasks();
        let mut count = 0_u32;
        while !self.stop.load(Ordering::Relaxed) {
            tasks.sleep(chance.time(self.pace, self.pace * 8)).await;
            count += 1;
            let (client, seed) = (self.clone(), chance.any());
            self.host.spawn(async move { client.send_keyed(count, &Chance::new(seed)).await });
        }
    }

    /// Sends one batch with a key several times: to one node where the key carries no time, else to any. A client may be so wrong
    /// that it has two batches with the same key.
    async fn send_keyed(&self, count: u32, chance: &Chance) {
        let (tasks, doors) = (self.host.tasks(), self.host.doors());
        let is_stated = chance.percent(40);
        let key = if is_stated {
            Id::new(Millis(doors.clock.unix_ms()), producer(self.number), count).to_string()
        } else {
            format!("client {} batch {count}", self.number)
        };
        let durability = if chance.percent(70) { Durability::Durable } else { Durability::Fast };
        let bodies = if chance.percent(REUSED_PERCENT) { 2 } else { 1 };
        let batches = (0..bodies).map(|body| {
            let (records, padding) = (chance.within(1, 3), "k".repeat(chance.below(200)));
            let line = |at| format!("client {} batch {count} body {body} record {at} {padding}", self.number);
            let lines = (0..records).map(line).collect();
            let (durability, key) = (durability.name().to_owned(), Some(key.clone()));
            Append { first: Id::MIN, durability, lines, key }
        });
        let batches: Vec<Append> = batches.collect();
        let texts = batches.iter().map(|batch| batch.lines.clone()).collect();
        self.ledger.begin_keyed(&key, texts, durability, is_stated);
        let Some(first) = chance.one(&self.nodes) else { return };
        for _ in 0..KEYED_TRIES {
            let body = if chance.percent(OTHER_PERCENT) { bodies - 1 } else { 0 };
            let node = if is_stated { chance.one(&self.nodes).unwrap_or(first) } else { first };
            let Some(batch) = batches.get(body).cloned() else { return };
            let (client, key, node) = (self.clone(), key.clone(), *node);
            let one = async move { client.try_keyed(&key, &batch, body, durability, node).await };
            if chance.percent(AT_ONCE_PERCENT) {
                self.host.spawn(one);
            } else {
                one.await;
                tasks.sleep(chance.time(Duration::from_millis(50), Duration::from_secs(4))).await;
            }
        }
    }

    async fn try_keyed(
        &self,
        key: &str,
        batch: &Append,
        body: usize,
        durability: Durability,
        (number, address): (usize, SocketAddr),
    ) {
        self.ledger.tried_keyed(key, body, number);
        match self.call(batch, durability, address).await {
            Some(Appended::KeptAs { cuts, first }) => self.ledger.acknowledged_keyed(key, body, first, number, cuts),
            Some(Appended::Refused | Appended::Reused) => self.ledger.refused_keyed(key, body),
            _ => {}
        }
    }

    /// Sends one batch to one node, once; says whether it is kept.
    pub(crate) async fn knock(&self, sequence: u32, durability: Durability, node: (usize, SocketAddr)) -> bool {
        let chance = Chance::new(self.seed);
        let now = Millis(self.host.doors().clock.unix_ms());
        let batch = self.batch(&chance, Id::new(now, producer(self.number), sequence), 1, durability);
        let ids = ids(&batch);
        self.ledger.tried(&ids);
        match self.call(&batch, durability, node.1).await {
            Some(Appended::Kept { cuts }) => {
                self.ledger.acknowledged(&ids, node.0, cuts);
                true
            }
            _ => false,
        }
    }

    fn batch(&self, chance: &Chance, first: Id, count: u32, durability: Durability) -> Append {
        let lines = (0..count).filter_map(|at| {
            let id = first.step(at)?;
            let padding = "x".repeat(chance.below(chance.within(1, 300)));
            let line = format!("client {} record {} {padding}", self.number, id.sequence());
            self.ledger.send(id, line.clone(), durability);
            Some(line)
        });
        Append { first, durability: durability.name().to_owned(), lines: lines.collect(), key: None }
    }

    async fn send(&self, mut batch: Append, durability: Durability, chance: &Chance) {
        let tasks = self.host.tasks();
        let mut all_refused = true;
        for _ in 0..TRIES {
            let Some(node) = chance.one(&self.nodes) else { return };
            let ids = ids(&batch);
            self.ledger.tried(&ids);
            match self.call(&batch, durability, node.1).await {
                Some(Appended::Kept { cuts }) => return self.ledger.acknowledged(&ids, node.0, cuts),
                Some(Appended::Refused) if all_refused => self.ledger.refused(&ids),
                Some(Appended::Refused) => {}
                Some(Appended::KeptAs { .. } | Appended::Reused | Appended::Unknown) | None => {
                    all_refused = false;
                    if self.planted == Some(Mutation::RetryWithNewIds) {
                        self.number_anew(&mut batch, durability);
                    }
                }
            }
            tasks.sleep(chance.time(Duration::from_millis(100), Duration::from_secs(2))).await;
        }
    }

    async fn call(&self, batch: &Append, durability: Durability, address: SocketAddr) -> Option<Appended> {
        let (tasks, net) = (self.host.tasks(), self.host.net());
        let patience = if durability == Durability::Bulk { PATIENCE_BULK } else { PATIENCE };
        let call = async { read_message::<Appended>(net.call(address, APPEND, message(batch)?).await?).await };
        within(&tasks, patience, call).await?.ok()
    }

    /// What no client may do: sends again with other ids.
    fn number_anew(&self, batch: &mut Append, durability: Durability) {
        let Some(first) = batch.first.step(1_000_000) else { return };
        batch.first = first;
        for (id, line) in ids(batch).into_iter().zip(&batch.lines) {
            self.ledger.send(id, line.clone(), durability);
        }
    }
}

/// Who numbers the records of a client.
pub(crate) fn producer(client: usize) -> Producer {
    Producer::new(1_000 + client as u64)
}

fn ids(batch: &Append) -> Vec<Id> {
    (0..batch.lines.len() as u32).filter_map(|at| batch.first.step(at)).collect()
}
