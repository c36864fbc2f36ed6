//! The agent as a whole: intake and link side by side, and the reasons to end.
#![allow(clippy::disallowed_methods, reason = "the agent is not simulated: real sockets, in real time")]

use std::pin::pin;
use std::time::Duration;

use bucksaw_env::Env;
use tokio::io::AsyncRead;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::connection_loop::ConnectionLoop;
use crate::send_window::SendWindow;
use crate::stop::wait_for_stop;
use crate::{Config, ForwardError, intake};

/// How often it is looked at whether to give up, as a part of the time after which that is due.
const CHECKS_PER_TIMEOUT: u32 = 10;

/// What was shipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records that were acknowledged.
    pub records: u64,
    /// Bytes of their text, an LF for each included.
    pub bytes: u64,
    /// How often the connection was lost and made again.
    pub reconnects: u64,
}

/// Ships the input to its end and returns when all of it is acknowledged. When `stop` turns true, or its sender is gone,
/// the input counts as ended.
///
/// Dropping the future loses what was read and not acknowledged.
///
/// # Errors
/// [`ForwardError`]; it says how many records were read and not shipped.
pub async fn run(
    input: impl AsyncRead + Unpin,
    config: Config,
    env: Env,
    stop: watch::Receiver<bool>,
) -> Result<Summary, ForwardError> {
    if config.addresses.is_empty() {
        return Err(ForwardError::NoAddress);
    }
    let window = SendWindow::new(config.window_bytes);
    let mut read = None;
    let mut reading = pin!(intake::run(input, &config, &env, &window, stop.clone()));
    let mut shipping = pin!(ConnectionLoop::new(&config, &env, &window).run());
    let mut too_long = pin!(wait_for_give_up(&config, &env, &window));
    let mut too_late = pin!(wait_for_stop_timeout(config.stop_timeout, stop));
    let reconnects = loop {
        tokio::select! {
            biased;
            reconnects = &mut shipping => break reconnects,
            result = &mut reading, if read.is_none() => {
                window.end_input();
                read = Some(result);
            }
            after = &mut too_long => {
                return Err(ForwardError::GaveUp { unsent: window.unacked_records(), after, reason: window.last_error() });
            }
            () = &mut too_late => {
                return Err(ForwardError::Stopped { unsent: window.unacked_records(), reason: window.last_error() });
            }
        }
    };
    if let Some(Err(error)) = read {
        return Err(ForwardError::Input(error));
    }
    let shipped = window.acked_totals();
    Ok(Summary { records: shipped.records, bytes: shipped.bytes, reconnects })
}

/// Waits until nothing was acknowledged for as long as is borne.
async fn wait_for_give_up(config: &Config, env: &Env, window: &SendWindow) -> Duration {
    let Some(after) = config.give_up_after else { return std::future::pending().await };
    loop {
        sleep(after / CHECKS_PER_TIMEOUT).await;
        let since = window.waiting_since();
        if since.is_some_and(|since| env.clock.uptime().saturating_sub(since) >= after) {
            return after;
        }
    }
}

async fn wait_for_stop_timeout(time: Duration, mut stop: watch::Receiver<bool>) {
    wait_for_stop(&mut stop).await;
    sleep(time).await;
}
