//! Ships standard input until it ends.

use std::io::IsTerminal as _;
use std::sync::atomic::Ordering;

use anyhow::Context as _;
use bucksaw_env::Env;
use bucksaw_forward::{Config, ForwardError, LineTotals, Summary};
use bucksaw_sources::ListenerTls;
use tokio::sync::watch;
use tracing::info;

use super::args::ForwardArgs;
use super::counted_input::CountedInput;
use super::status_listener;
use super::stop_signal::StopSignal;
use crate::exit::Exit;
use crate::failure::print_error;
use crate::print::human_bytes;
use crate::progress::Progress;

/// Ships standard input.
pub(super) async fn run(args: &ForwardArgs, config: Config, tls: Option<ListenerTls>) -> anyhow::Result<Exit> {
    let to = config.addresses.join(", ");
    let is_typed = std::io::stdin().is_terminal();
    if is_typed {
        print_error("shipping what is typed here; end with Ctrl-D");
    }
    let signal = StopSignal::catch()?;
    status_listener::start((&args.listen, args.insecure_listen), tls, &config.monitor, signal.receiver()).await?;
    match ship(config, signal.receiver(), is_typed).await {
        Ok(shipped) => {
            let lines = shipped.lines;
            if lines != LineTotals::default() {
                info!(
                    records = shipped.records,
                    filtered = lines.dropped,
                    sampled_out = lines.sampled_out,
                    redacted = lines.redacted,
                    "shipped"
                );
            }
            Ok(if signal.is_received() { Exit::Interrupted } else { Exit::Done })
        }
        Err(error @ ForwardError::Input(_)) => Err(error.into()),
        Err(error) => Err(error).with_context(|| format!("not everything was shipped to {to}")),
    }
}

async fn ship(config: Config, stop: watch::Receiver<bool>, is_typed: bool) -> Result<Summary, ForwardError> {
    let (input, bytes) = CountedInput::new(tokio::io::stdin());
    // What is typed is seen by its user.
    let mut progress = if is_typed { Progress::none() } else { Progress::new("shipping") };
    let mut shipping = std::pin::pin!(bucksaw_forward::run(input, config, Env::real(), stop));
    loop {
        tokio::select! {
            shipped = &mut shipping => return shipped,
            () = progress.tick() => {
                progress.show(&format!(", {} read", human_bytes(bytes.load(Ordering::Relaxed))));
            }
        }
    }
}
