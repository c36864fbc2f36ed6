//! Sends lines by the framed protocol, as `bucksaw forward` does.

use anyhow::Context as _;
use bucksaw_env::Env;
use bucksaw_forward::Config;
use tokio::sync::{mpsc, watch};

use super::batch_pipe::BatchPipe;
use super::load_totals::LoadCounters;
use super::producer::LineBatch;

/// Sends all batches and waits for their acknowledgement.
pub(super) async fn send(
    batches: mpsc::Receiver<LineBatch>,
    config: Config,
    counters: LoadCounters,
) -> anyhow::Result<()> {
    let to = config.addresses.join(", ");
    // At an interrupt the input ends, and the agent ends once it is acknowledged.
    let (_never, stop) = watch::channel(false);
    let sent = bucksaw_forward::run(BatchPipe::new(batches, counters), config, Env::real(), stop).await;
    sent.map(drop).with_context(|| format!("not everything was sent to {to}"))
}
