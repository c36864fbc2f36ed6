//! All metrics of a node, in one registry. A test generates `docs/metrics.md` from it.

use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::real::{Counters, process};
use bucksaw_env::{Clock, Env};
use bucksaw_sources::AgentRegistry;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::memory;

/// The metrics of each crate.
pub(super) struct Metrics {
    pub(super) node: bucksaw_node::Metrics,
    pub(super) sources: bucksaw_sources::Metrics,
    pub(super) tls: bucksaw_tls::Metrics,
    pub(super) kafka: bucksaw_kafka::Metrics,
    pub(super) api: bucksaw_api::Metrics,
    pub(super) auth: bucksaw_auth::Metrics,
    pub(super) clickhouse: bucksaw_clickhouse::Metrics,
    pub(super) memory_limit_bytes: Gauge,
    pub(super) disk_reserve_bytes: Gauge,
    pub(super) insecure_listeners: Gauge,
    pub(super) net: Counters,
    pub(super) agents: Arc<AgentRegistry>,
}

/// Measures the memory in use at each scrape.
#[derive(Debug)]
struct MemoryUsedCollector;

impl Collector for MemoryUsedCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let used = ConstGauge::new(i64::try_from(memory::used().unwrap_or_default()).unwrap_or(i64::MAX));
        let help = "Anonymous memory of the process in bytes; 0 where it cannot be measured";
        let encoder = encoder.encode_descriptor("memory_used_bytes", help, None, used.metric_type())?;
        used.encode(encoder)
    }
}

/// Measures what the process uses at each scrape, under the names that all exporters give these metrics.
#[derive(Debug)]
struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let cpu = ConstCounter::new(process::cpu_seconds());
        let help = "Processor time of all threads in seconds";
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, cpu.metric_type())?)?;
        let Some(bytes) = process::resident_bytes() else { return Ok(()) };
        let memory = ConstGauge::new(i64::try_from(bytes).unwrap_or(i64::MAX));
        let help = "Resident memory in bytes, with pages of files that are mapped";
        memory.encode(encoder.encode_descriptor("process_resident_memory_bytes", help, None, memory.metric_type())?)
    }
}

/// Reads the list of agents at each scrape.
#[derive(Debug)]
struct AgentsCollector {
    known: Arc<AgentRegistry>,
    clock: Arc<dyn Clock>,
}

impl Collector for AgentsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let agents = self.known.agents(self.clock.uptime());
        let connected = || agents.iter().filter(|agent| agent.is_connected());
        let lag = connected().map(|agent| agent.report.lag_ms).max().unwrap_or_default();
        let lost: u64 = agents.iter().map(|agent| agent.report.gaps + agent.report.dropped_records).sum();
        for (name, help, value) in [
            ("agents", "Agents that report to this node", connected().count() as f64),
            (
                "agents_lag_max_seconds",
                "The longest wait of an unread or unacknowledged byte at one of these agents",
                Duration::from_millis(lag).as_secs_f64(),
            ),
            (
                "agents_losses",
                "Gaps and dropped records of all agents that reported in the last 15 minutes",
                lost as f64,
            ),
        ] {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

impl Metrics {
    /// Registers the metrics of all crates.
    pub(super) fn new(env: &Env) -> (Self, Registry) {
        let mut root = Registry::default();
        root.register_collector(Box::new(ProcessCollector));
        let registry = root.sub_registry_with_prefix("bucksaw");
        registry.register("build", "The program and its version", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        let memory_limit_bytes = Gauge::default();
        let help = "Memory limit of the node in bytes; all memory budgets derive from it";
        registry.register("memory_limit_bytes", help, memory_limit_bytes.clone());
        let disk_reserve_bytes = Gauge::default();
        let help = "Free bytes of the disk below which nothing is accepted";
        registry.register("disk_reserve_bytes", help, disk_reserve_bytes.clone());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let cores = ConstGauge::new(i64::try_from(cores).unwrap_or(i64::MAX));
        registry.register("cores", "Cores that the process may use", cores);
        let insecure_listeners = Gauge::default();
        let help = "Listeners that other machines can reach and that do not authenticate clients, or do not encrypt their tokens";
        registry.register("insecure_listeners", help, insecure_listeners.clone());
        registry.register_collector(Box::new(MemoryUsedCollector));
        let agents = Arc::<AgentRegistry>::default();
        let (known, clock) = (Arc::clone(&agents), Arc::clone(&env.clock));
        registry.register_collector(Box::new(AgentsCollector { known, clock }));
        let metrics = Self {
            node: bucksaw_node::Metrics::new(registry),
            sources: bucksaw_sources::Metrics::new(registry),
            tls: bucksaw_tls::Metrics::new(registry),
            kafka: bucksaw_kafka::Metrics::new(registry),
            api: bucksaw_api::Metrics::new(registry),
            auth: bucksaw_auth::Metrics::new(registry),
            clickhouse: bucksaw_clickhouse::Metrics::register(registry.sub_registry_with_prefix("clickhouse")),
            memory_limit_bytes,
            disk_reserve_bytes,
            insecure_listeners,
            net: Counters::new(registry),
            agents,
        };
        (metrics, root)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "compares a document of the project")]

    use super::*;

    const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");

    /// Name, kind and help of each metric, by name.
    fn metrics() -> Vec<(String, String, String)> {
        let (_, registry) = Metrics::new(&Env::real());
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let mut metrics: Vec<(String, String, String)> = Vec::new();
        for line in text.lines() {
            if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
                metrics.push((name.to_owned(), String::new(), help.trim_end_matches('.').to_owned()));
            } else if let Some((_, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                let last = metrics.last_mut().unwrap();
                last.1 = kind.to_owned();
                if kind == "counter" {
                    last.0.push_str("_total");
                }
            }
        }
        metrics.sort();
        metrics
    }

    #[test]
    fn names_follow_the_conventions() {
        let metrics = metrics();
        assert!(metrics.len() > 40, "{}", metrics.len());
        for (name, kind, help) in &metrics {
            assert!(name.starts_with("bucksaw_") || name.starts_with("process_"), "{name}");
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'),
                "{name}"
            );
            assert!(!name.contains("_total_total") && !name.contains("_ms"), "{name}");
            assert!(!help.is_empty() && !kind.is_empty(), "{name}");
        }
        assert!(metrics.windows(2).all(|pair| pair[0].0 != pair[1].0));
    }

    /// The names in a text that begin with a prefix, which may have a backtick before it.
    fn words<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        text.match_indices(mark).map(move |(at, _)| {
            let word = text[at..].trim_start_matches('`');
            &word[..word.find(|letter| !is_name(letter)).unwrap_or(word.len())]
        })
    }

    #[test]
    fn documents_and_alerts_use_existing_metrics() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/");
        let read = |name: &str| std::fs::read_to_string(format!("{docs}{name}")).unwrap();
        let (rules, explained) = (read("alerts.yml"), read("operating.md"));
        let (metrics, agents) = (metrics(), read("forward.md"));
        // A test of agents compares that document with their metrics.
        let is_agents = |name: &str| name.starts_with("bucksaw_forward_") && agents.contains(&format!("`{name}`"));
        for (file, text) in [("alerts.yml", &rules), ("operating.md", &explained)] {
            let mut named = 0;
            for name in words(text, "bucksaw_") {
                let is_metric = metrics.iter().any(|(have, ..)| have == name) || is_agents(name);
                assert!(is_metric, "docs/{file} names {name}, which is no metric");
                named += 1;
            }
            assert!(named > 10, "docs/{file} names {named} metrics");
        }
        let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
        assert!(alerts.len() > 10, "{alerts:?}");
        for alert in &alerts {
            assert!(explained.contains(&format!("`{alert}`")), "docs/operating.md does not say what {alert} means");
        }
        let (_, table) = explained.split_once("\n## Alerts\n").unwrap();
        let (table, _) = table.split_once("\n## ").unwrap();
        for alert in words(table, "`Bucksaw") {
            assert!(alerts.contains(&alert), "docs/alerts.yml has no {alert}");
        }
    }

    #[test]
    fn the_document_has_all_metrics() {
        let rows: Vec<String> =
            metrics().iter().map(|(name, kind, help)| format!("| `{name}` | {kind} | {help} |\n")).collect();
        let want = format!(
            "# Metrics\n\nThe metrics of `GET /metrics`, in OpenMetrics text. A test generates this document.\n\n\
             | metric | kind | meaning |\n| --- | --- | --- |\n{}",
            rows.concat()
        );
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(DOCUMENT, &want).unwrap();
        }
        let found = std::fs::read_to_string(DOCUMENT).unwrap_or_default();
        assert!(found == want, "docs/metrics.md is stale: run UPDATE=1 cargo test -p bucksaw");
    }
}
