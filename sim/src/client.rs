//! Appending clients. They retry batches of unknown outcome at any node with the same ids. For batches with an idempotency key
//! the node assigns the ids; clients send these several times with the same key, also after an acknowledgement.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bucksaw_env::{sim, with_timeout};
use bucksaw_ingest::Durability;
use bucksaw_record::{Id, Millis, Producer};
use bucksaw_rpc::{message_body, read_message};

use crate::append::{APPEND, AppendReply, AppendRequest};
use crate::injected_bug::InjectedBug;
use crate::ledger::RecordLedger;
use crate::rng::SeededRng;

/// Timeout of an append. `bulk` takes as long as storing does.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
const BULK_REPLY_TIMEOUT: Duration = Duration::from_secs(90);

/// Maximum attempts per batch.
const TRIES: usize = 4;

/// Attempts per keyed batch.
const KEYED_TRIES: usize = 5;

/// Percentage of keys that are used for two bodies.
const REUSED_PERCENT: usize = 30;

/// Percentage of the attempts that send the second body.
const OTHER_BODY_PERCENT: usize = 40;

/// Percentage of the attempts that overlap the next one.
const CONCURRENT_PERCENT: usize = 20;

/// Percentage of the batches that an injected bug changes.
const MUTATED_PERCENT: usize = 20;

/// An appending client.
#[derive(Clone)]
pub(crate) struct AppendClient {
    pub(crate) host: sim::Host,
    pub(crate) number: usize,
    pub(crate) seed: u64,
    pub(crate) batch_interval: Duration,
    /// The ingest nodes with their numbers.
    pub(crate) nodes: Vec<(usize, SocketAddr)>,
    pub(crate) ledger: RecordLedger,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) bug: Option<InjectedBug>,
}

impl AppendClient {
    /// Sends batches until it is stopped.
    pub(crate) async fn run(self) {
        let rng = SeededRng::new(self.seed);
        let tasks = self.host.tasks();
        let (mut sequence, mut last) = (0, None);
        while !self.stop.load(Ordering::Relaxed) {
            tasks.sleep(rng.duration(self.batch_interval / 2, self.batch_interval * 2)).await;
            let durability = match rng.below(10) {
                0 => Durability::Bulk,
                1..=5 => Durability::Durable,
                _ => Durability::Fast,
            };
            let count = rng.between(1, 10) as u32;
            let now = Millis(self.host.env().clock.unix_ms());
            let first = Id::new(now, producer(self.number), sequence);
            sequence += count;
            let mut batch = self.batch(&rng, first, count, durability);
            if self.bug == Some(InjectedBug::IdReused) && rng.percent(MUTATED_PERCENT) {
                batch.first = last.unwrap_or(first);
            }
            last = Some(batch.first);
            if durability == Durability::Bulk {
                // In a task of its own, because it takes long.
                let (client, seed) = (self.clone(), rng.next_u64());
                self.host.spawn(async move {
                    client.send(batch, durability, &SeededRng::new(seed)).await;
                });
            } else {
                self.send(batch, durability, &rng).await;
            }
        }
    }

    /// Sends keyed batches until it is stopped.
    pub(crate) async fn run_keyed(self) {
        let rng = SeededRng::new(self.seed ^ 0x6b65_7973);
        let tasks = self.host.tasks();
        let mut count = 0_u32;
        while !self.stop.load(Ordering::Relaxed) {
            tasks.sleep(rng.duration(self.batch_interval, self.batch_interval * 8)).await;
            count += 1;
            let (client, seed) = (self.clone(), rng.next_u64());
            self.host.spawn(async move { client.send_keyed(count, &SeededRng::new(seed)).await });
        }
    }

    /// Sends one keyed batch several times: to one node, or to any node if the key carries its time. A faulty client uses the key
    /// for two bodies.
    async fn send_keyed(&self, count: u32, rng: &SeededRng) {
        let (tasks, env) = (self.host.tasks(), self.host.env());
        let has_key_time = rng.percent(40);
        let key = if has_key_time {
            Id::new(Millis(env.clock.unix_ms()), producer(self.number), count).to_string()
        } else {
            format!("client {} batch {count}", self.number)
        };
        let durability = if rng.percent(70) { Durability::Durable } else { Durability::Fast };
        let bodies = if rng.percent(REUSED_PERCENT) { 2 } else { 1 };
        let batches = (0..bodies).map(|body| {
            let (records, padding) = (rng.between(1, 3), "k".repeat(rng.below(200)));
            let line = |at| format!("client {} batch {count} body {body} record {at} {padding}", self.number);
            let lines = (0..records).map(line).collect();
            let (durability, key) = (durability.name().to_owned(), Some(key.clone()));
            AppendRequest { first: Id::MIN, durability, lines, key }
        });
        let batches: Vec<AppendRequest> = batches.collect();
        let texts = batches.iter().map(|batch| batch.lines.clone()).collect();
        self.ledger.record_keyed_batch(&key, texts, durability, has_key_time);
        let Some(first) = rng.choose(&self.nodes) else { return };
        for _ in 0..KEYED_TRIES {
            let body = if rng.percent(OTHER_BODY_PERCENT) { bodies - 1 } else { 0 };
            let node = if has_key_time { rng.choose(&self.nodes).unwrap_or(first) } else { first };
            let Some(batch) = batches.get(body).cloned() else { return };
            let (client, key, node) = (self.clone(), key.clone(), *node);
            let attempt = async move { client.try_keyed(&key, &batch, body, durability, node).await };
            if rng.percent(CONCURRENT_PERCENT) {
                self.host.spawn(attempt);
            } else {
                attempt.await;
                tasks.sleep(rng.duration(Duration::from_millis(50), Duration::from_secs(4))).await;
            }
        }
    }

    async fn try_keyed(
        &self,
        key: &str,
        batch: &AppendRequest,
        body: usize,
        durability: Durability,
        (number, address): (usize, SocketAddr),
    ) {
        self.ledger.record_keyed_try(key, body, number);
        match self.call(batch, durability, address).await {
            Some(AppendReply::AcknowledgedAs { cuts, first }) => {
                self.ledger.record_keyed_acknowledged(key, body, first, number, cuts);
            }
            Some(AppendReply::Refused | AppendReply::KeyReused) => self.ledger.record_keyed_refused(key, body),
            _ => {}
        }
    }

    /// Sends one batch to one node once. Returns whether it is acknowledged.
    pub(crate) async fn send_once(&self, sequence: u32, durability: Durability, node: (usize, SocketAddr)) -> bool {
        let rng = SeededRng::new(self.seed);
        let now = Millis(self.host.env().clock.unix_ms());
        let batch = self.batch(&rng, Id::new(now, producer(self.number), sequence), 1, durability);
        let ids = ids(&batch);
        self.ledger.record_try(&ids);
        match self.call(&batch, durability, node.1).await {
            Some(AppendReply::Acknowledged { cuts }) => {
                self.ledger.record_acknowledged(&ids, node.0, cuts);
                true
            }
            _ => false,
        }
    }

    fn batch(&self, rng: &SeededRng, first: Id, count: u32, durability: Durability) -> AppendRequest {
        let lines = (0..count).filter_map(|at| {
            let id = first.checked_add(at)?;
            let padding = "x".repeat(rng.below(rng.between(1, 40)));
            let (milliseconds, address) = (rng.below(10_000), rng.below(256));
            let line = format!(
                "client {} record {} took {milliseconds} ms from 10.0.0.{address} {padding}",
                self.number,
                id.sequence()
            );
            self.ledger.record_sent(id, line.clone(), durability);
            Some(line)
        });
        AppendRequest { first, durability: durability.name().to_owned(), lines: lines.collect(), key: None }
    }

    async fn send(&self, mut batch: AppendRequest, durability: Durability, rng: &SeededRng) {
        let tasks = self.host.tasks();
        let mut all_refused = true;
        for _ in 0..TRIES {
            let Some(node) = rng.choose(&self.nodes) else { return };
            let ids = ids(&batch);
            self.ledger.record_try(&ids);
            match self.call(&batch, durability, node.1).await {
                Some(AppendReply::Acknowledged { cuts }) => return self.ledger.record_acknowledged(&ids, node.0, cuts),
                Some(AppendReply::Refused) if all_refused => self.ledger.record_refused(&ids),
                Some(AppendReply::Refused) => {}
                Some(AppendReply::AcknowledgedAs { .. } | AppendReply::KeyReused | AppendReply::Unknown) | None => {
                    all_refused = false;
                    if self.bug == Some(InjectedBug::RetryWithNewIds) {
                        self.assign_new_ids(&mut batch, durability);
                    }
                }
            }
            tasks.sleep(rng.duration(Duration::from_millis(100), Duration::from_secs(2))).await;
        }
    }

    async fn call(&self, batch: &AppendRequest, durability: Durability, address: SocketAddr) -> Option<AppendReply> {
        let (tasks, net) = (self.host.tasks(), self.host.net());
        let timeout = if durability == Durability::Bulk { BULK_REPLY_TIMEOUT } else { REPLY_TIMEOUT };
        let call = async { read_message::<AppendReply>(net.call(address, APPEND, message_body(batch)?).await?).await };
        with_timeout(&tasks, timeout, call).await?.ok()
    }

    /// The injected bug: a retry with other ids.
    fn assign_new_ids(&self, batch: &mut AppendRequest, durability: Durability) {
        let Some(first) = batch.first.checked_add(1_000_000) else { return };
        batch.first = first;
        for (id, line) in ids(batch).into_iter().zip(&batch.lines) {
            self.ledger.record_sent(id, line.clone(), durability);
        }
    }
}

/// The producer of a client.
pub(crate) fn producer(client: usize) -> Producer {
    Producer::new(1_000 + client as u64)
}

fn ids(batch: &AppendRequest) -> Vec<Id> {
    (0..batch.lines.len() as u32).filter_map(|at| batch.first.checked_add(at)).collect()
}
