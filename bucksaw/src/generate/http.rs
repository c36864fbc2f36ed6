//! Sends lines as bodies of HTTP.
//!
//! Each body has an idempotency key and a time of its own, so the node makes the same records of it when it is sent again.

use std::pin::pin;

use bucksaw_env::Env;
use bucksaw_ingest::Durability;
use bucksaw_record::Labels;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;

use super::load_totals::LoadCounters;
use super::producer::LineBatch;
use crate::args::NodeArgs;
use crate::node_client::{LineSender, NodeClient, path};

/// Bodies on their way at the same time. The node works on some while others are sent.
const BODIES_MAX: usize = 4;

/// Makes requests of batches.
pub(super) struct LineUpload {
    sender: LineSender,
    path: String,
    /// Differs between runs.
    run: u64,
}

impl LineUpload {
    pub(super) fn new(node: &NodeArgs, labels: &Labels, durability: Durability) -> anyhow::Result<Self> {
        let mut parameters = vec![("durability", durability.name().to_owned())];
        parameters.extend(labels.iter().map(|(name, value)| ("label", format!("{name}={value}"))));
        let client = NodeClient::new(node)?;
        let run = Env::real().entropy.next_u64();
        Ok(Self { sender: LineSender::new(client), path: path("/api/v1/ingest", &parameters), run })
    }

    async fn send(&self, number: u64, now: u64, batch: LineBatch, counters: &LoadCounters) -> anyhow::Result<()> {
        let (key, bytes) = (format!("generate {:016x} {number}", self.run), batch.text.len() as u64);
        counters.add_written(batch.lines, bytes);
        let path = format!("{}&batch_time={now}", self.path);
        let accepted = self.sender.send(&path, &key, Bytes::from(batch.text)).await?;
        counters.add_acked(accepted, bytes);
        Ok(())
    }
}

/// Sends all batches and waits for their acknowledgement.
pub(super) async fn send(
    mut batches: mpsc::Receiver<LineBatch>,
    upload: LineUpload,
    counters: LoadCounters,
) -> anyhow::Result<()> {
    let (mut sending, mut next, clock) = (pin!(FuturesUnordered::new()), 0, Env::real().clock);
    let mut has_ended = false;
    while !has_ended || !sending.is_empty() {
        tokio::select! {
            Some(sent) = sending.next(), if !sending.is_empty() => sent?,
            batch = batches.recv(), if !has_ended && sending.len() < BODIES_MAX => match batch {
                Some(batch) => {
                    sending.push(upload.send(next, clock.unix_ms(), batch, &counters));
                    next += 1;
                }
                None => has_ended = true,
            },
        }
    }
    Ok(())
}
