//! Runs intake and connections side by side until the input has ended or the agent gives up.
#![expect(clippy::disallowed_methods, reason = "the agent is not simulated: real sockets, in real time")]

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Env, wait_for_stop};
use tokio::io::AsyncRead;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::connection_loop::ConnectionLoop;
use crate::intake::StreamInput;
use crate::send_window::SendWindow;
use crate::{Config, ForwardError, LineTotals, intake};

/// The result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Acknowledged records.
    pub records: u64,
    /// Bytes of their text, including the LFs.
    pub bytes: u64,
    /// The number of reconnects.
    pub reconnects: u64,
    /// What became of lines that were not shipped as they are.
    pub lines: LineTotals,
}

/// Ships the input to its end and returns when all of it is acknowledged. The input also ends when `stop` is true or its
/// sender is dropped.
///
/// Dropping the future loses records that were read and not acknowledged.
///
/// # Errors
/// [`ForwardError`], with the number of records that were read and not shipped.
pub async fn run(
    input: impl AsyncRead + Unpin + Send,
    config: Config,
    env: Env,
    stop: watch::Receiver<bool>,
) -> Result<Summary, ForwardError> {
    run_streams(vec![StreamInput { input: Box::new(input), attributes: Vec::new() }], config, env, stop).await
}

/// The same with several inputs. Each is one sequence of lines; the order between them is that of reading.
///
/// # Errors
/// Those of [`run`].
pub async fn run_streams(
    inputs: Vec<StreamInput<'_>>,
    config: Config,
    env: Env,
    stop: watch::Receiver<bool>,
) -> Result<Summary, ForwardError> {
    if config.addresses.is_empty() {
        return Err(ForwardError::NoAddress);
    }
    let window = Arc::new(SendWindow::new(config.window_bytes));
    config.monitor.attach(&env, window.status_reader(), None);
    let mut read = None;
    let mut reading = pin!(intake::run(inputs, &config, &env, &window, stop.clone()));
    let mut shipping = pin!(ConnectionLoop::new(&config, &env, &window).run());
    let mut give_up = pin!(wait_for_give_up(&config, &env, &window));
    let mut stop_late = pin!(wait_for_stop_timeout(config.stop_timeout, stop));
    let reconnects = loop {
        tokio::select! {
            biased;
            reconnects = &mut shipping => break reconnects,
            result = &mut reading, if read.is_none() => {
                window.end_input();
                read = Some(result);
            }
            after = &mut give_up => {
                return Err(ForwardError::GaveUp { unsent: window.unacked_records(), after, reason: window.last_error() });
            }
            () = &mut stop_late => {
                return Err(ForwardError::Stopped { unsent: window.unacked_records(), reason: window.last_error() });
            }
        }
    };
    let lines = read.transpose().map_err(ForwardError::Input)?.unwrap_or_default();
    let shipped = window.acked_totals();
    Ok(Summary { records: shipped.records, bytes: shipped.bytes, reconnects, lines })
}

/// Resolves when no acknowledgement has arrived for [`Config::give_up_after`].
async fn wait_for_give_up(config: &Config, env: &Env, window: &SendWindow) -> Duration {
    let Some(after) = config.give_up_after else { return std::future::pending().await };
    window.wait_stalled(&*env.clock, Duration::ZERO, after).await;
    after
}

async fn wait_for_stop_timeout(time: Duration, mut stop: watch::Receiver<bool>) {
    wait_for_stop(&mut stop).await;
    sleep(time).await;
}
