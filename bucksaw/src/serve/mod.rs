//! `bucksaw serve`: runs a node.
//!
//! What runs, and in which order it stops, is written in ARCHITECTURE.md: first nothing new is let in and what is under
//! way comes to its end, then the queue is closed, then the store takes what is left, then the threads end.

mod actors;
mod data_dir;
mod listen;
mod metrics;
mod priority;
mod settings;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bucksaw_api::{App, NodeInfo};
use bucksaw_doors::Doors;
use bucksaw_ingest::{Durability, Queue};
use bucksaw_query::{Engine, Pool};
use bucksaw_sources::Intake;
use bucksaw_store::Shelf;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

use crate::args::ServeArgs;
use crate::exit::Exit;
use actors::Actors;
use data_dir::DataDir;
use listen::Listeners;
use metrics::Metrics;

/// What is left in the queue at the end is given to the store for so long; the rest is there at the next start.
const DRAIN_MAX: Duration = Duration::from_secs(20);

pub(crate) fn run(args: ServeArgs) -> anyhow::Result<Exit> {
    start_log(&args.log_level)?;
    settings::check(&args)?;
    raise_descriptor_limit();
    let doors = Doors::real();
    let data_dir = DataDir::open(&doors, &args.data_dir)?;
    let (metrics, registry) = Metrics::new();

    let net = runtime("net")?;
    let http = runtime("http")?;
    let listeners = Listeners::bind(&args, &net, &http)?;

    let config = settings::queue(&args, &doors, data_dir.path());
    let (queue, found) = Queue::open(doors.clone(), &data_dir.path().join("queue"), config, metrics.queue)?;
    if found.segments > 0 || found.damaged > 0 {
        info!(
            segments = found.segments,
            records = found.records,
            torn_bytes = found.torn_bytes,
            damaged = found.damaged,
            "found records that wait for the store"
        );
    }
    let shelf = Shelf::open(doors.clone(), &data_dir.path().join("shelf"), settings::shelf(&args), metrics.shelf)?;
    shelf.reconcile(&queue);
    let (queue, shelf) = (Arc::new(queue), Arc::new(shelf));

    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let pool = Pool::start(cores).context("cannot start the threads that search")?;
    let parts = (Arc::clone(&queue), Arc::clone(&shelf));
    let engine = Arc::new(Engine::new(parts.0, parts.1, pool, doors.clone(), settings::query(&args), metrics.query));
    let intake = Intake {
        queue: Arc::clone(&queue),
        config: settings::sources(&args),
        doors: doors.clone(),
        metrics: metrics.sources,
    };
    let addresses = listeners.addresses();
    data_dir.write_addresses(&doors, &addresses)?;
    let node = NodeInfo {
        id: data_dir.node().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        roles: args.roles.iter().map(|role| role.name().to_owned()).collect(),
        addresses: addresses.clone(),
    };
    let app = App::new(engine, doors, settings::api(&args), metrics.api, node, registry);

    let signals = Signals::catch(&http)?;
    let mut actors = Actors::start(&queue, &shelf)?;
    let (stop, stopping) = watch::channel(false);
    let served = serve(&net, &http, listeners, &intake, &app, &stopping);
    say_ready(&addresses, data_dir.path());

    let reason = http.block_on(wanted_end(signals, &mut actors));
    info!(reason, "stopping");
    app.set_ready(false);
    // Nobody listens when all servers have ended already.
    let _ = stop.send(true);
    for task in served {
        // A task that panicked has nothing left to end.
        let _ = http.block_on(task);
    }
    queue.close();
    shelf.hurry();
    drain(&queue, &shelf);
    let ended = actors.stop();
    net.shutdown_timeout(Duration::from_secs(1));
    http.shutdown_timeout(Duration::from_secs(1));
    info!("stopped");
    ended.map(|()| Exit::Done)
}

fn start_log(level: &str) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(level).with_context(|| format!("--log-level {level} is not a level"))?;
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .with_target(false)
        .init();
    Ok(())
}

/// The network's threads do short work only; a few are enough, and idle ones cost nothing.
fn runtime(name: &str) -> anyhow::Result<Runtime> {
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).clamp(2, 8);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(128)
        .thread_keep_alive(Duration::from_secs(5))
        .thread_name(name)
        .enable_all()
        .build()
        .context("cannot start the threads of the network")
}

type Served = Vec<tokio::task::JoinHandle<()>>;

fn serve(
    net: &Runtime,
    http: &Runtime,
    listeners: Listeners,
    intake: &Intake,
    app: &App,
    stopping: &watch::Receiver<bool>,
) -> Served {
    let mut served = Vec::new();
    for (durability, listener) in [
        (Durability::Fast, listeners.fast),
        (Durability::Durable, listeners.durable),
        (Durability::Bulk, listeners.bulk),
    ] {
        if let Some(listener) = listener {
            served.push(net.spawn(bucksaw_sources::serve(listener, durability, intake.clone(), stopping.clone())));
        }
    }
    if let Some(listener) = listeners.http {
        served.push(http.spawn(bucksaw_api::serve(listener, app.clone(), stopping.clone())));
    }
    served
}

fn say_ready(addresses: &BTreeMap<String, String>, data_dir: &std::path::Path) {
    let of = |name: &str| addresses.get(name).map_or("off", String::as_str);
    info!(
        http = of("http"),
        fast = of("fast"),
        durable = of("durable"),
        bulk = of("bulk"),
        data_dir = %data_dir.display(),
        "ready"
    );
}

/// The signals that end a node. Caught before the node says that it is ready, so that none is missed.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn catch(runtime: &Runtime) -> anyhow::Result<Self> {
        let _entered = runtime.enter();
        let caught = |kind| signal(kind).context("cannot catch signals");
        Ok(Self { interrupt: caught(SignalKind::interrupt())?, terminate: caught(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "interrupted",
            _ = self.terminate.recv() => "asked to terminate",
        }
    }
}

/// Waits for a signal, or for a part of the node that ended by itself. A second signal ends the process at once.
async fn wanted_end(mut signals: Signals, actors: &mut Actors) -> &'static str {
    let reason = tokio::select! {
        reason = signals.next() => reason,
        () = actors.ended() => "a part of the node failed",
    };
    tokio::spawn(async move {
        signals.next().await;
        warn!("stopped at once, by a second signal: the next start takes a little longer");
        std::process::exit(i32::from(Exit::Interrupted.code()));
    });
    reason
}

/// Gives the store what is left in the queue, so that it is safe from a power cut, too.
#[expect(clippy::disallowed_methods, reason = "bounds the wait of a real process; nothing is decided by it")]
fn drain(queue: &Queue, shelf: &Shelf) {
    let until = Instant::now() + DRAIN_MAX;
    while Instant::now() < until {
        match shelf.gather(queue, true) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                warn!(%error, "cannot give the store what is left in the queue; it is there at the next start");
                return;
            }
        }
    }
}

/// Every segment is an open file, and so is every connection.
fn raise_descriptor_limit() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit) {
        warn!(%error, "cannot raise the limit of open files");
    }
}
