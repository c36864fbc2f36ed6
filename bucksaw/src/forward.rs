//! `bucksaw forward`: ships standard input to a node.

use std::io::IsTerminal as _;

use anyhow::{Context as _, bail};
use bucksaw_env::Env;
use bucksaw_forward::{Config, ForwardError};
use bucksaw_record::Labels;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::args::{ForwardArgs, ForwardDurability};
use crate::exit::Exit;
use crate::failure::{UsageError, print_error};

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
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(colour).with_target(false).init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the network")?;
    if std::io::stdin().is_terminal() {
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
            // Whoever waits for it ends the shipping; nobody does when it has ended already.
            let _ = stop.send(true);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            shipped = bucksaw_forward::run(tokio::io::stdin(), config, Env::real(), stopping.clone()) => {
                Ok((shipped, *stopping.borrow()))
            }
            () = interrupted => bail!("interrupted"),
        }
    });
    // A read from a terminal that never ends must not hold up the end of the process.
    runtime.shutdown_background();
    match shipped? {
        (Ok(_), true) => Ok(Exit::Interrupted),
        (Ok(_), false) => Ok(Exit::Done),
        (Err(error @ ForwardError::Input(_)), _) => Err(error.into()),
        (Err(error), _) => Err(anyhow::Error::from(error).context(format!("not everything was shipped to {to}"))),
    }
}

fn config(args: &ForwardArgs) -> anyhow::Result<Config> {
    let port = match args.durability {
        ForwardDurability::Fast => 7651,
        ForwardDurability::Durable => 7652,
    };
    let mut to: Vec<String> = args.to.iter().map(ToString::to_string).collect();
    if to.is_empty() {
        to.push(format!("127.0.0.1:{port}"));
    }
    let pairs: Vec<(&str, &str)> = args.labels.iter().flat_map(Labels::iter).collect();
    let labels = Labels::new(pairs).map_err(|error| UsageError(format!("--label: {error}")))?;
    // Drawn by lot among those that were given: many agents with one list are to spread over its nodes.
    Ok(Config { addresses: to, labels, shuffle: true, ..Config::default() })
}
