//! `bucksaw forward`: ships standard input to a node.

mod counted_input;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, bail};
use bucksaw_env::Env;
use bucksaw_forward::{Config, ForwardError};
use bucksaw_ingest::Durability;
use bucksaw_record::Labels;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::exit::Exit;
use crate::failure::{UsageError, print_error};
use crate::print::human_bytes;
use crate::progress::Progress;
use crate::values::{DisplayZone, HostPort, TimeFrom, all_labels, durability};
use counted_input::CountedInput;

/// Ship lines to a node
///
/// Without a path, ships standard input until it ends. With paths, follows files as they grow and rotate, and remembers
/// its position in each.
#[derive(Clone, Debug, Args)]
pub(crate) struct ForwardArgs {
    /// Files to follow, or quoted patterns such as '/var/log/*.log'
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Nodes to ship to, tried in random order
    ///
    /// A loaded node names less loaded ones, which are tried first, so the list need not be complete. Defaults to the
    /// node on this machine: 127.0.0.1:7651, or 127.0.0.1:7652 with --durability durable.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    to: Vec<HostPort>,

    /// Label of the shipped lines, such as app=web; repeatable, or several with commas
    #[arg(long = "label", value_name = "K=V", value_parser = Labels::parse)]
    labels: Vec<Labels>,

    /// When a line counts as shipped
    ///
    /// `fast`: when the node has written it, `durable`: when the node has synced it to disk.
    #[arg(long, value_name = "WHEN", default_value = "fast")]
    #[arg(value_parser = durability(&["fast", "durable"]), hide_possible_values = true)]
    durability: Durability,

    /// Time of the lines: that of their arrival here, or the one near the start of the line
    ///
    /// A line without a time has that of the line before it, or of its arrival if there is none. See docs/times.md for the
    /// forms.
    #[arg(long, value_name = "FROM", value_enum, default_value = "arrival")]
    time_from: TimeFrom,

    /// Zone of times in lines that name none: an IANA name, UTC, an offset, or local
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    time_zone: DisplayZone,

    /// Directory for the positions in the followed files; created if missing
    #[arg(long, value_name = "DIR", default_value = "./bucksaw-forward")]
    state_dir: PathBuf,
}

pub(crate) fn run(args: ForwardArgs) -> anyhow::Result<Exit> {
    if let Some(path) = args.paths.first() {
        let shown = path.display();
        let message = format!(
            "this version ships standard input only: try 'bucksaw forward < {shown}', or 'tail -F {shown} | bucksaw forward'"
        );
        return Err(UsageError(message).into());
    }
    let config = config(&args)?;
    let to = config.addresses.join(", ");
    crate::log::start("info")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the network")?;
    let is_typed = std::io::stdin().is_terminal();
    if is_typed {
        print_error("shipping what is typed here; end with Ctrl-D");
    }
    let shipped = runtime.block_on(async {
        let (stop, stopping) = watch::channel(false);
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot catch signals")?;
        let mut terminate = signal(SignalKind::terminate()).context("cannot catch signals")?;
        let interrupted = async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            // Fails only if the shipping has ended.
            let _ = stop.send(true);
            std::future::pending::<()>().await;
        };
        let (input, bytes) = CountedInput::new(tokio::io::stdin());
        // What is typed is seen by its user.
        let mut progress = if is_typed { Progress::none() } else { Progress::new("shipping") };
        let shipping = bucksaw_forward::run(input, config, Env::real(), stopping.clone());
        let (mut shipping, mut interrupted) = (std::pin::pin!(shipping), std::pin::pin!(interrupted));
        loop {
            tokio::select! {
                shipped = &mut shipping => return Ok((shipped, *stopping.borrow())),
                () = &mut interrupted => bail!("interrupted"),
                () = progress.tick() => {
                    progress.show(&format!(", {} read", human_bytes(bytes.load(Ordering::Relaxed))));
                }
            }
        }
    });
    // A read from a terminal may never return, and must not delay the exit.
    runtime.shutdown_background();
    match shipped? {
        (Ok(_), true) => Ok(Exit::Interrupted),
        (Ok(_), false) => Ok(Exit::Done),
        (Err(error @ ForwardError::Input(_)), _) => Err(error.into()),
        (Err(error), _) => Err(anyhow::Error::from(error).context(format!("not everything was shipped to {to}"))),
    }
}

fn config(args: &ForwardArgs) -> anyhow::Result<Config> {
    let port = if args.durability == Durability::Durable { 7652 } else { 7651 };
    let mut to: Vec<String> = args.to.iter().map(ToString::to_string).collect();
    if to.is_empty() {
        to.push(format!("127.0.0.1:{port}"));
    }
    let labels = all_labels(&args.labels)?;
    // Shuffled, so that agents with the same list spread over its nodes.
    let line_zone = args.time_from.line_zone(&args.time_zone);
    Ok(Config { addresses: to, labels, shuffle: true, line_zone, ..Config::default() })
}
