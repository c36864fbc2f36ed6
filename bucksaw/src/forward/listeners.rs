//! Local listeners: those of a node, with a queue in the state directory of the agent.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use bucksaw_api::{App, NodeInfo};
use bucksaw_env::{Env, real};
use bucksaw_forward::{EventRules, QueueInput, WhenFull, queue_config};
use bucksaw_ingest::{Durability, Queue};
use bucksaw_query::{Answers, Engine, ScanPool};
use bucksaw_record::time::TimeZone;
use bucksaw_sources::intake::EventFilter;
use bucksaw_sources::{
    ConnectionSlots, DatagramSocket, Intake, ListenerProtocol, ListenerSetup, ListenerTls, TcpIntake, UnfinishedBytes,
    WaitingSenders, serve_datagrams, serve_heartbeats,
};
use bucksaw_steering::LoadShedder;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, UdpSocket};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::info;

use super::args::ForwardArgs;
use super::no_store::NoStore;
use super::prompt_runtime::PromptRuntime;
use crate::bind::{bind, bind_both};
use crate::open_listeners::{self, Lacking, OpenListener};

/// Connections of all listeners together. Applications of one machine need few.
const CONNECTIONS_MAX: usize = 1_024;

/// Memory for messages that have arrived in part, and for bodies of HTTP, in bytes each.
const PARTIAL_BYTES_MAX: usize = 16 << 20;

/// Bodies of HTTP that are decoded at once.
const INGESTS_MAX: usize = 4;

/// The bound listeners.
pub(super) struct LocalListeners {
    syslog: Option<(TcpListener, UdpSocket)>,
    fluent: Option<(TcpListener, UdpSocket)>,
    otlp: Option<TcpListener>,
    otlp_http: Option<TcpListener>,
}

/// What the listeners need besides their sockets.
pub(super) struct LocalIntake {
    pub(super) env: Env,
    /// When records count as accepted.
    pub(super) durability: Durability,
    /// The zone of times that name none.
    pub(super) zone: TimeZone,
    pub(super) bytes_max: u64,
    pub(super) when_full: WhenFull,
    /// What decides which events become records.
    pub(super) rules: Option<Arc<EventRules>>,
    /// TLS of the TCP listeners.
    pub(super) tls: Option<ListenerTls>,
    /// Counts the senders that wait for an acknowledgement.
    pub(super) waiting_senders: WaitingSenders,
}

impl LocalListeners {
    /// Binds the listeners of the flags.
    pub(super) async fn bind(args: &ForwardArgs) -> anyhow::Result<Self> {
        let (is_authenticated, is_insecure_accepted) =
            (args.listener_tls.authenticates_clients(), args.insecure_listen);
        let args = &args.listeners;
        let listeners = Self {
            syslog: bind_both("--listen-syslog", &args.listen_syslog).await?,
            fluent: bind_both("--listen-fluent", &args.listen_fluent).await?,
            otlp: bind("--listen-otlp", &args.listen_otlp).await?,
            otlp_http: bind("--listen-otlp-http", &args.listen_otlp_http).await?,
        };
        let both = [("syslog", &listeners.syslog), ("fluent", &listeners.fluent)];
        let both = both.into_iter().filter_map(|(name, both)| Some((name, &both.as_ref()?.0)));
        let one = [("otlp", &listeners.otlp), ("otlp-http", &listeners.otlp_http)];
        let one = one.into_iter().filter_map(|(name, one)| Some((name, one.as_ref()?)));
        let (mut open, mut addresses) = (Vec::new(), Vec::new());
        for (name, listener) in both.chain(one) {
            let address = listener.local_addr()?;
            // Syslog has a port for datagrams, too, and Fluentd's accepts heartbeats only.
            if !is_authenticated || name == "syslog" {
                open.extend(OpenListener::new(name, &format!("--listen-{name}"), address, "write records"));
            }
            addresses.push((name, address));
        }
        open_listeners::check(&open, is_insecure_accepted, Lacking::AgentAuthentication)?;
        for (name, address) in addresses {
            info!(listener = name, %address, "listening");
        }
        Ok(listeners)
    }

    /// Serves until the stop. The state directory is locked.
    pub(super) fn serve(
        self,
        state_dir: &Path,
        intake: LocalIntake,
        stop: &watch::Receiver<bool>,
    ) -> anyhow::Result<QueueInput> {
        let LocalIntake { env, durability, zone, bytes_max, when_full, rules, tls, waiting_senders } = intake;
        let filter = rules.map(|rules| rules as Arc<dyn EventFilter>);
        let (dir, mut registry) = (state_dir.join("queue"), Registry::default());
        let metrics = bucksaw_ingest::Metrics::new(&mut registry);
        let (queue, recovery) = Queue::open(env.clone(), &dir, queue_config(bytes_max), metrics)
            .with_context(|| format!("cannot open the queue of the listeners in {}", dir.display()))?;
        if recovery.segments > 0 || recovery.damaged > 0 {
            let (records, damaged) = (recovery.records, recovery.damaged);
            info!(records, damaged, "the last run left unacknowledged records of listeners, which are sent again");
        }
        let queue = Arc::new(queue);
        let shedder = Arc::new(LoadShedder::new(bucksaw_steering::Metrics::new(&mut registry)));
        let config = bucksaw_sources::Config {
            tls: tls.clone(),
            connections_max: CONNECTIONS_MAX,
            partial_bytes_max: PARTIAL_BYTES_MAX,
            ..bucksaw_sources::Config::default()
        };
        let tcp = TcpIntake {
            // Agents report to nodes.
            agents: Arc::default(),
            // Local listeners; the agent presents its own token to nodes.
            authenticator: None,
            audit: None,
            waiting_senders,
            intake: Intake::new(Arc::clone(&queue), env.clone()).with_filter(filter.clone()),
            shedder: Arc::clone(&shedder),
            sender_memory: UnfinishedBytes::new(&config),
            config,
            metrics: bucksaw_sources::Metrics::new(&mut registry),
            slots: ConnectionSlots::new(CONNECTIONS_MAX),
        };
        // Requests pass through several tasks, each of which would wait for a turn, and the kernel keeps few datagrams.
        let needs_prompt = self.syslog.is_some() || self.otlp.is_some() || self.otlp_http.is_some();
        let prompt = needs_prompt.then(PromptRuntime::start).transpose().context("cannot start the listeners")?;
        let mut tasks = JoinSet::new();
        let setup = |name, protocol| ListenerSetup { name, durability, protocol };
        if let Some((listener, socket)) = self.syslog {
            let setup = setup("syslog", ListenerProtocol::Syslog(zone));
            tasks.spawn(bucksaw_sources::serve(listener, setup.clone(), tcp.clone(), stop.clone()));
            if let Some(prompt) = &prompt {
                let socket = DatagramSocket::Udp(prompt.adopt(socket.into_std()?, UdpSocket::from_std)?);
                tasks.spawn_on(serve_datagrams(socket, setup, tcp.clone(), stop.clone()), prompt.handle());
            }
        }
        if let Some((listener, socket)) = self.fluent {
            let setup = setup("fluent", ListenerProtocol::Fluent(None));
            tasks.spawn(bucksaw_sources::serve(listener, setup, tcp.clone(), stop.clone()));
            tasks.spawn(serve_heartbeats(socket, Arc::clone(&env.clock), stop.clone()));
        }
        if let Some(prompt) = prompt.as_ref().filter(|_| self.otlp.is_some() || self.otlp_http.is_some()) {
            let app = otlp_app(&queue, &shedder, (&env, tls), registry, prompt.handle()).with_event_filter(filter);
            if let Some(listener) = self.otlp {
                let listener = prompt.adopt(listener.into_std()?, TcpListener::from_std)?;
                tasks.spawn_on(bucksaw_api::serve_otlp_grpc(listener, app.clone(), stop.clone()), prompt.handle());
            }
            if let Some(listener) = self.otlp_http {
                let listener = prompt.adopt(listener.into_std()?, TcpListener::from_std)?;
                tasks.spawn_on(bucksaw_api::serve_otlp_http(listener, app, stop.clone()), prompt.handle());
            }
        }
        let listeners = Box::pin(async move {
            let _prompt = prompt;
            while tasks.join_next().await.is_some() {}
        });
        Ok(QueueInput { queue, bytes_max, when_full, listeners })
    }
}

/// The HTTP surface of a node, of which only the calls of OTLP are served.
fn otlp_app(
    queue: &Arc<Queue>,
    shedder: &Arc<LoadShedder>,
    (env, tls): (&Env, Option<ListenerTls>),
    mut registry: Registry,
    runtime: &Handle,
) -> App {
    let store = Arc::new(NoStore::new(env));
    let metrics = bucksaw_query::Metrics::new(&mut registry);
    let config = bucksaw_query::Config::default();
    let engine = Engine::new(Arc::clone(queue), store, ScanPool::inline(), env.clone(), config, metrics);
    let tasks = real::Tasks::new(runtime.clone());
    let answers = Answers::new(Arc::new(engine), Arc::new(tasks));
    let config = bucksaw_api::Config {
        tls,
        connections_max: CONNECTIONS_MAX,
        bodies_bytes_max: PARTIAL_BYTES_MAX,
        ingests_max: INGESTS_MAX,
        ..bucksaw_api::Config::default()
    };
    let metrics = bucksaw_api::Metrics::new(&mut registry);
    App::new(answers, Arc::clone(shedder), env.clone(), config, metrics, NodeInfo::default(), registry)
}
