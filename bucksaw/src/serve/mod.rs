//! `bucksaw serve`: runs a node.
//!
//! Settings, [`Node::open`], listeners, then a signal. At a stop listeners close and running requests finish, then
//! [`NodeTasks::stop`](bucksaw_node::NodeTasks::stop), then the threads end.

mod cluster;
mod cores;
mod data_dir;
mod descriptors;
mod disk;
mod head_room;
mod kafka;
mod kafka_status;
mod listen;
mod memory;
mod metrics;
mod priority;
mod runtimes;
mod settings;
mod signals;
mod socket_file;
mod store;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use bucksaw_api::{App, NodeInfo};
use bucksaw_auth::Authenticator;
use bucksaw_env::{Env, Reloads, Tasks, real};
use bucksaw_node::{Environment, Node, NodeOpenError, OpenStore};
use bucksaw_query::Answers;
use bucksaw_sources::{AuditTrail, ConnectionSlots, Intake, TcpIntake, UnfinishedBytes, WaitingSenders};
use bucksaw_tls::ClientCertificates;
use tokio::sync::watch;
use tracing::info;

use crate::args::ServeArgs;
use crate::exit::Exit;
use crate::open_listeners::{self, Lacking};
use cluster::ClusterNetwork;
use data_dir::DataDir;
use descriptors::DescriptorMonitor;
use listen::Listeners;
use metrics::Metrics;
use runtimes::Runtimes;
use signals::Signals;

pub(crate) fn run(args: ServeArgs) -> anyhow::Result<Exit> {
    crate::log::start(&args.log_level.to_string())?;
    settings::check(&args)?;
    store::check(&args)?;
    let descriptor_limit = descriptors::raise_limit()?;
    let memory_limit = memory::limit(args.memory_limit)?;
    let kafka = kafka::config(&args, memory_limit.bytes)?;
    let plan =
        memory::MemoryPlan::for_limit(memory_limit.bytes).with_record_bytes(args.max_record_bytes.0, &memory_limit)?;
    bucksaw_query::limit_automata(settings::bytes(plan.automata));
    let mut env = Env::real();
    let encryption = args.encryption.load(&mut env)?;
    let env = env;
    let data_dir = DataDir::open(&env, &args.data_dir)?;
    descriptors::check(descriptor_limit, env.fs.as_ref(), &data_dir.path)?;
    let (metrics, registry) = Metrics::new(&env);
    let authenticator = authenticator(&args, &env, metrics.auth)?;
    let reloads = Reloads::default();
    metrics.memory_limit_bytes.set(i64::try_from(memory_limit.bytes).unwrap_or(i64::MAX));
    let roles = settings::roles(&args);

    let runtimes = Runtimes::start(&plan)?;
    let listeners = Listeners::bind(&args, roles, &runtimes)?;
    let mut addresses = listeners.addresses();
    let cluster_connections = descriptors::shares(descriptor_limit, 0).cluster;
    let ClusterNetwork { net, address: cluster_address, listens_on } =
        runtimes.node.block_on(cluster::network(&args, &env, cluster_connections, metrics.net, &reloads))?;

    let tls = args.tls.load(
        &env,
        // With an auth file, clients may present a token instead.
        if args.auth_file.is_some() { ClientCertificates::Optional } else { ClientCertificates::Required },
        metrics.tls,
        descriptors::handshakes_max(descriptor_limit),
    )?;
    if let Some(tls) = &tls {
        runtimes.node.spawn(Arc::clone(&tls.server).watch(runtimes.tasks(), reloads.clone()));
    }
    if let Some(encryption) = encryption {
        encryption.log();
        runtimes.node.spawn(encryption.watch(reloads.clone()));
    }
    let open = listen::open_listeners(&args, &addresses, listens_on);
    let lacking = if args.auth_file.is_some() { Lacking::Encryption } else { Lacking::Authentication };
    open_listeners::check(&open, args.insecure_listen, lacking)?;
    metrics.insecure_listeners.set(i64::try_from(open.len()).unwrap_or(i64::MAX));

    let mut config = settings::node(&args, &plan, &env, &data_dir, descriptor_limit);
    config.clients = cluster::clients(&addresses, cluster_address);
    config.has_other_seeds = runtimes.node.block_on(cluster::has_other_seeds(&args.join, cluster_address));
    addresses.extend(cluster_address.map(|address| ("cluster".to_owned(), address.to_string())));
    let pool = cores::pool().context("cannot start the scan pool")?;
    let environment = Environment { env: env.clone(), tasks: runtimes.tasks(), net, pool };
    let database = store::clickhouse(&args, &plan, &env, runtimes.tasks(), metrics.clickhouse.clone())?;
    let sink = store::sink(&args, &plan, (&env, &data_dir.path), runtimes.tasks(), metrics.clickhouse)?;
    config.batch_sink = sink.clone().map(|sink| sink as _);
    let opened = match database {
        None => Node::open(config, environment, metrics.node),
        Some(store) => Node::open_with(config, environment, metrics.node, |_, _| Ok(OpenStore::Other(store))),
    };
    let node = opened.map_err(|error| match error {
        NodeOpenError::Files(error) => memory::explain_open_error(error, &memory_limit),
        error => error.into(),
    })?;
    if let Err(address) = runtimes.node.block_on(node.wait_joined()) {
        let (id, dir) = (node.id, data_dir.path.display());
        bail!(
            "node {id} already runs at {address}: {dir} is a copy of its data directory. Stop that node, or move {dir}/node.json \
             away to make this a new node"
        );
    }
    if let Some(file) = data_dir.write_addresses(&env, &addresses)? {
        runtimes.node.spawn(data_dir::retry_write(env.clone(), node.tasks.clone(), file));
    }

    metrics.disk_reserve_bytes.set(i64::try_from(node.queue.free_bytes_min()).unwrap_or(i64::MAX));
    let shares = descriptors::shares(descriptor_limit, node.store.open_files());
    let http = listen::http_address(&addresses, tls.is_some());
    let sources = bucksaw_sources::Config { tls: tls.clone(), ..settings::sources(&args, &plan, shares, http) };
    // Answers are rendered, and the audit trail is written, on blocking threads of the HTTP runtime.
    let http_tasks: Arc<dyn Tasks> = Arc::new(real::Tasks::new(runtimes.http.handle().clone()));
    let records = Intake::new(node.queue.clone(), env.clone());
    let audit =
        args.is_audited().then(|| AuditTrail::new(records.clone(), node.id.to_string(), Arc::clone(&http_tasks)));
    if let Some(trail) = audit.clone() {
        reloads.observe(move |reload| trail.record_reload(reload));
    }
    let intake = TcpIntake {
        intake: records,
        shedder: node.shedder.clone(),
        sender_memory: UnfinishedBytes::new(&sources),
        config: sources,
        metrics: metrics.sources,
        slots: ConnectionSlots::new(shares.lines),
        agents: Arc::clone(&metrics.agents),
        authenticator: authenticator.clone(),
        audit: audit.clone(),
        // A node does not pause.
        waiting_senders: WaitingSenders::default(),
    };
    let (slots, queue, context) = (intake.slots.clone(), node.queue.clone(), node.store_context.clone());
    let monitor = DescriptorMonitor { limit: descriptor_limit, shares, slots, queue, context };
    runtimes.node.spawn(monitor.run(node.tasks.clone()));
    let info = NodeInfo {
        id: node.id.to_string(),
        host: sysinfo::System::host_name().unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        roles: args.roles.iter().map(|role| role.name().to_owned()).collect(),
        addresses: addresses.clone(),
        memory_limit_bytes: memory_limit.bytes,
        insecure_listeners: open.into_iter().map(|listener| listener.name).collect(),
    };
    let api_config = bucksaw_api::Config { tls, ..settings::api(&args, &plan, shares) };
    let answers = Answers::new(node.engine.clone(), http_tasks).with_scatter(node.scatter.clone());
    let kafka_status = kafka.as_ref().map(|config| kafka_status::part(config, &metrics.kafka.monitor, &env));
    let app = App::new(answers, node.shedder.clone(), env, api_config, metrics.api, info, registry)
        .with_authenticator(authenticator.clone())
        .with_repair(node.repair.clone())
        .with_erasures(Some(node.erasures.clone()))
        .with_status_part(kafka_status)
        .with_status_part(Some(head_room::part()?))
        .with_agents(metrics.agents, &node.cluster)
        .with_cluster(node.cluster.clone(), args.replication_factor)
        .with_audit(audit.clone())
        .with_reloads(reloads.clone());

    let signals = Signals::install(&runtimes.http)?;
    let mut tasks = node.start();
    let (stop, stopping) = watch::channel(false);
    if let Some(authenticator) = authenticator {
        runtimes.node.spawn(authenticator.reload_changes(node.tasks.clone(), reloads, stopping.clone()));
    }
    if let Some(sink) = sink {
        runtimes.node.spawn(sink.run(node.tasks.clone(), stopping.clone()));
    }
    let servers = listeners.serve(&runtimes, &intake, &app, &stopping);
    let kafka = kafka::start(kafka.as_ref(), &intake.intake, &metrics.kafka, &stopping)?;
    log_ready(&addresses, &data_dir.path);

    let reason = runtimes.http.block_on(signals.wait_for_stop(&mut tasks));
    info!(reason = reason.unwrap_or("a task of the node failed"), "stopping");
    app.set_ready(false);
    // Other nodes stop redirecting clients to this one, and its own are redirected.
    node.cluster.update_facts(|facts| facts.draining = true);
    // Fails when all servers have ended already.
    let _ = stop.send(true);
    for server in servers {
        // A server that panicked has ended, too.
        let _ = runtimes.http.block_on(server);
    }
    if let Some(kafka) = kafka {
        kafka.join();
    }
    if let Some(trail) = audit {
        trail.flush();
    }
    runtimes.node.block_on(tasks.stop());
    runtimes.shut_down();
    info!("stopped");
    if reason.is_none() {
        bail!("a task of the node failed because of a bug: see its log");
    }
    Ok(Exit::Done)
}

/// What recognises clients, if the arguments name an auth file.
fn authenticator(args: &ServeArgs, env: &Env, metrics: bucksaw_auth::Metrics) -> anyhow::Result<Option<Authenticator>> {
    let open = |path: &std::path::PathBuf| {
        let opened = Authenticator::open(path, env.clone(), metrics);
        opened.with_context(|| format!("--auth-file: {}", path.display()))
    };
    args.auth_file.as_ref().map(open).transpose()
}

fn log_ready(addresses: &BTreeMap<String, String>, data_dir: &Path) {
    let of = |name: &str| addresses.get(name).map_or("off", String::as_str);
    let senders = ["syslog", "syslog-socket", "gelf", "fluent", "otlp", "otlp-http"];
    for (name, address) in senders.iter().filter_map(|name| addresses.get_key_value(*name)) {
        info!(listener = name, address, "listening");
    }
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
