//! Reads inputs into the send window.
#![expect(clippy::disallowed_methods, reason = "the agent is not simulated: real sockets, in real time")]

use std::io;
use std::pin::Pin;

use bucksaw_env::{Env, wait_for_stop};
use futures_util::future::join_all;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};

use crate::Config;
use crate::batch_builder::ShippedBatch;
use crate::batch_packer::BatchPacker;
use crate::lines::LineTotals;
use crate::send_window::SendWindow;

/// Bytes of one read, unless a batch is smaller.
const CHUNK_BYTES: usize = 64 << 10;

/// An input, and what is the same for all of its lines.
pub struct StreamInput<'a> {
    /// The input.
    pub input: Box<dyn AsyncRead + Unpin + Send + 'a>,
    /// Attributes of its lines: names and values. A value has no LF.
    pub attributes: Vec<(&'static str, &'static str)>,
}

/// Reads to the end of the inputs or until the stop. Then everything that was read is in the window, also after an error.
/// Returns what became of lines that were not shipped as they are.
///
/// # Errors
/// The first error of an input.
pub(crate) async fn run(
    inputs: Vec<StreamInput<'_>>,
    config: &Config,
    env: &Env,
    window: &SendWindow,
    stop: watch::Receiver<bool>,
) -> io::Result<LineTotals> {
    let inputs = inputs.into_iter().map(|input| read_input(input, config, env, window, stop.clone()));
    let mut totals = LineTotals::default();
    for read in join_all(inputs).await {
        totals += read?;
    }
    Ok(totals)
}

async fn read_input(
    input: StreamInput<'_>,
    config: &Config,
    env: &Env,
    window: &SendWindow,
    mut stop: watch::Receiver<bool>,
) -> io::Result<LineTotals> {
    let StreamInput { mut input, attributes } = input;
    let mut packer = BatchPacker::new(config, env, &attributes).map_err(io::Error::other)?;
    let mut chunk = vec![0; config.batch_bytes.clamp(1, CHUNK_BYTES)];
    let mut due: Option<Pin<Box<Sleep>>> = None;
    let mut pushing = stop.clone();
    let mut push = async |batch: ShippedBatch| {
        // After the stop nothing more is read, so the window may exceed its limit a little.
        tokio::select! {
            () = window.wait_for_space() => {}
            () = wait_for_stop(&mut pushing) => {}
        }
        window.push(batch, env.clock.uptime());
    };
    let result = loop {
        let read = tokio::select! {
            biased;
            () = wait_for_stop(&mut stop) => break Ok(()),
            () = wait_until_due(&mut due) => {
                due = None;
                if let Some(batch) = packer.flush() {
                    push(batch).await;
                }
                continue;
            }
            read = input.read(&mut chunk) => read,
        };
        let count = match read {
            Ok(0) => break Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => break Err(error),
        };
        for batch in packer.push(chunk.get(..count).unwrap_or_default()) {
            due = None;
            push(batch).await;
        }
        if packer.has_pending() && due.is_none() {
            due = Some(Box::pin(sleep(config.linger)));
        }
    };
    for batch in packer.finish() {
        push(batch).await;
    }
    result.map(|()| packer.totals())
}

async fn wait_until_due(due: &mut Option<Pin<Box<Sleep>>>) {
    match due {
        Some(due) => due.await,
        None => std::future::pending().await,
    }
}
