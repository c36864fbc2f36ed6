//! `bucksaw serve`: runs a node.
//!
//! What runs, and in which order it stops, is written in ARCHITECTURE.md: first nothing new is let in and what is under
//! way comes to its end, then the queue is closed, then the store takes what is left, then the threads end.

mod cluster;
mod cores;
mod data_dir;
mod descriptors;
mod disk;
mod listen;
mod memory;
mod metrics;
mod priority;
mod settings;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bucksaw_api::{App, NodeInfo};
use bucksaw_cluster::{Cluster, Router};
use bucksaw_env::{Env, Tasks, real};
use bucksaw_ingest::{Durability, Queue};
use bucksaw_node::{Node, NodeTasks};
use bucksaw_query::{Engine, GossipPeers, QueryServer, Scatter};
use bucksaw_sources::{ConnectionSlots, Intake};
use bucksaw_store::SegmentStore;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

use crate::args::ServeArgs;
use crate::exit::Exit;
use data_dir::DataDir;
use listen::Listeners;
use metrics::Metrics;

/// What is left in the queue at the end is given to the store for so long; the rest is there at the next start.
const DRAIN_MAX: Duration = Duration::from_secs(20);

/// What the node is doing then has so long to come to its end.
const STOP_MAX: Duration = Duration::from_secs(10);

pub(crate) fn run(args: ServeArgs) -> anyhow::Result<Exit> {
    start_log(&args.log_level)?;
    settings::check(&args)?;
    let descriptor_limit = descriptors::raise_limit()?;
    let limit = memory::limit(args.memory_limit)?;
    let plan = memory::MemoryPlan::for_limit(limit.bytes).with_record_bytes(args.max_record_bytes.0, &limit)?;
    bucksaw_query::limit_automata(settings::bytes(plan.automata));
    let env = Env::real();
    let data_dir = DataDir::open(&env, &args.data_dir)?;
    descriptors::check(descriptor_limit, env.fs.as_ref(), data_dir.path())?;
    let (metrics, registry) = Metrics::new();
    let roles = settings::roles(&args);

    metrics.memory.limit_bytes.set(i64::try_from(limit.bytes).unwrap_or(i64::MAX));
    let net = runtime("net", &plan)?;
    let http = runtime("http", &plan)?;
    let node_runtime = runtime("node", &plan)?;
    let background = priority::background_runtime()?;
    let listeners = Listeners::bind(&args, roles, &net, &http)?;
    let (network, reached_at) =
        node_runtime.block_on(cluster::network(&args, &env, descriptors::shares(descriptor_limit, 0).cluster))?;

    let sizes = disk::DiskSizes::of(&env, data_dir.path());
    let config = settings::queue(&args, &plan, sizes, descriptor_limit);
    let (queue, found) = Queue::open(env.clone(), &data_dir.path().join("queue"), config, metrics.queue)?;
    if found.segments > 0 || found.damaged > 0 {
        info!(
            segments = found.segments,
            records = found.records,
            torn_bytes = found.torn_bytes,
            damaged = found.damaged,
            "recovered queue segments"
        );
    }
    let store = SegmentStore::open(
        env.clone(),
        &data_dir.path().join("store"),
        settings::store(&args, &plan, sizes),
        metrics.store,
    )
    .map_err(|error| memory::explain_open_error(error, &limit))?;
    store.reconcile(&queue);
    let (queue, store) = (Arc::new(queue), Arc::new(store));

    let pool = cores::pool().context("cannot start the threads that search")?;
    let parts = (Arc::clone(&queue), Arc::clone(&store));
    let engine =
        Arc::new(Engine::new(parts.0, parts.1, pool, env.clone(), settings::query(&args, &plan), metrics.query));
    let mut addresses = listeners.addresses();
    listen::warn_exposed(&addresses);
    let shares = descriptors::shares(descriptor_limit, store.segments().len());
    let intake = Intake {
        queue: Arc::clone(&queue),
        config: settings::sources(&args, &plan, shares, listen::http_address(&addresses)),
        env: env.clone(),
        metrics: metrics.sources,
        slots: ConnectionSlots::new(shares.lines),
    };
    let tasks: Arc<dyn Tasks> =
        Arc::new(real::Tasks::new(node_runtime.handle().clone()).with_low_priority(background.handle().clone()));
    let facts = cluster::initial_facts(data_dir.node(), roles, &addresses, reached_at);
    addresses.extend(reached_at.map(|at| ("cluster".to_owned(), at.to_string())));
    let (config, router) = (settings::cluster(&args, data_dir.path()), Router::new());
    let (cluster_env, all, there) = (env.clone(), Arc::clone(&tasks), Arc::clone(&network));
    let cluster = Cluster::start(config, cluster_env, all, there, facts, router, metrics.cluster)
        .context("cannot join the cluster")?;
    if let Err(address) = node_runtime.block_on(cluster.wait_joined()) {
        let (node, dir) = (data_dir.node(), data_dir.path().display());
        bail!(
            "node {node} already runs, at {address}: {dir} is a copy of its data directory. Stop that node; or, to make this \
             one a node of its own, move {dir}/node.json away"
        );
    }
    let addresses_file = data_dir.write_addresses(&env, &addresses)?;
    let info = NodeInfo {
        id: data_dir.node().to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        roles: args.roles.iter().map(|role| role.name().to_owned()).collect(),
        addresses: addresses.clone(),
        memory_limit_bytes: limit.bytes,
    };
    let replication_factor = args.replication_factor as usize;
    let peers = GossipPeers::new(Arc::clone(&cluster), Arc::clone(&env.clock), replication_factor);
    let peers = if node_runtime.block_on(cluster::has_other_seeds(&args.join, reached_at)) {
        peers.with_join_targets()
    } else {
        peers
    };
    let query_server = QueryServer::new(Arc::clone(&engine), Arc::clone(&tasks), Arc::new(peers));
    query_server.register(&cluster.router());
    let node = Node {
        env: env.clone(),
        tasks,
        net: network,
        id: data_dir.node(),
        roles,
        queue: Arc::clone(&queue),
        store: Arc::clone(&store),
        cluster: Arc::clone(&cluster),
        patience: bucksaw_store::PeerTimeouts::default(),
        balance: settings::balance(&args),
    };

    if let Some(file) = addresses_file {
        node_runtime.spawn(file.write_when_space(env.clone()));
    }

    let (slots, queue_there, shelf_there) = (intake.slots.clone(), Arc::clone(&queue), Arc::clone(&store));
    let growth = descriptors::DescriptorMonitor {
        limit: descriptor_limit,
        shares,
        slots,
        queue: queue_there,
        store: shelf_there,
    };
    node_runtime.spawn(growth.run());

    let signals = Signals::install(&http)?;
    node.register_calls();
    let mut parts = NodeTasks::start(node);
    let repair = parts.repair().cloned();
    let read_repair =
        repair.clone().map(|repair| Arc::new(cluster::ReadRepair(repair)) as Arc<dyn bucksaw_query::RepairHints>);
    let scatter = Scatter::new(query_server, bucksaw_query::ReplyTimeouts::default(), read_repair);
    let app = App::new(engine, env.clone(), settings::api(&args, &plan, shares), metrics.api, info, registry);
    let app = app.with_repair(repair).with_cluster(Arc::clone(&cluster), args.replication_factor).with_scatter(scatter);
    let (stop, stopping) = watch::channel(false);
    let served = serve(&net, &http, listeners, &intake, &app, &stopping);
    log_ready(&addresses, data_dir.path());

    let (reason, sound) = http.block_on(wait_for_stop(signals, &mut parts));
    info!(reason, "stopping");
    app.set_ready(false);
    // From now on no other node sends its clients here, and ours are told to go to others.
    cluster.update_facts(|facts| facts.draining = true);
    // Nobody listens when all servers have ended already.
    let _ = stop.send(true);
    for task in served {
        // A task that panicked has nothing left to end.
        let _ = http.block_on(task);
    }
    queue.close();
    store.stop_throttling();
    node_runtime.block_on(async {
        parts.drain(DRAIN_MAX).await;
        parts.stop(STOP_MAX).await;
        if !cluster.leave().await {
            warn!(node = %cluster.node_id(), "no other node has heard the goodbye: they take this one for down until it is back, or forgotten");
        }
    });
    net.shutdown_timeout(Duration::from_secs(1));
    http.shutdown_timeout(Duration::from_secs(1));
    node_runtime.shutdown_timeout(Duration::from_secs(1));
    background.shutdown_timeout(Duration::from_secs(1));
    info!("stopped");
    if !sound {
        bail!("a part of the node failed by a bug: its log says more");
    }
    Ok(Exit::Done)
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
fn runtime(name: &str, plan: &memory::MemoryPlan) -> anyhow::Result<Runtime> {
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get).clamp(2, 8);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .max_blocking_threads(plan.blocking_threads)
        .thread_keep_alive(Duration::from_secs(5))
        .thread_name(name)
        .enable_all()
        .build()
        .context("cannot start the threads of the network")
}

type ServerTasks = Vec<tokio::task::JoinHandle<()>>;

fn serve(
    net: &Runtime,
    http: &Runtime,
    listeners: Listeners,
    intake: &Intake,
    app: &App,
    stopping: &watch::Receiver<bool>,
) -> ServerTasks {
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

fn log_ready(addresses: &BTreeMap<String, String>, data_dir: &std::path::Path) {
    let of = |name: &str| addresses.get(name).map_or("off", String::as_str);
    info!(
        http = of("http"),
        fast = of("fast"),
        durable = of("durable"),
        bulk = of("bulk"),
        cluster = of("cluster"),
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
    fn install(runtime: &Runtime) -> anyhow::Result<Self> {
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

/// Waits for a signal, or for a part of the node that ended by itself; says which, and whether all is sound. A second
/// signal ends the process at once.
async fn wait_for_stop(mut signals: Signals, parts: &mut NodeTasks) -> (&'static str, bool) {
    let ended = tokio::select! {
        reason = signals.next() => (reason, true),
        () = parts.ended() => ("a part of the node failed", false),
    };
    tokio::spawn(async move {
        signals.next().await;
        warn!("stopped immediately by a second signal; the next start recovers the open segments");
        std::process::exit(i32::from(Exit::Interrupted.code()));
    });
    ended
}
