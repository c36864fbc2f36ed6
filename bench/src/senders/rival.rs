//! Other log systems that take the requests.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bucksaw_faults::http::Client;
use bucksaw_faults::wait;

use super::protocol::SenderProtocol;
use crate::context::BenchContext;
use crate::node::{http_client, sum};
use crate::process;

/// The maximum time until a program is ready, and until everything is stored.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(900);

/// Loki's configuration for one process with files: its defaults, but for limits that would refuse the load.
const LOKI_CONFIG: &str = "auth_enabled: false
server: {http_listen_address: 127.0.0.1, http_listen_port: PORT, grpc_listen_address: 127.0.0.1, grpc_listen_port: GRPC, log_level: error}
frontend: {address: 127.0.0.1}
common:
  path_prefix: DIR
  replication_factor: 1
  ring: {instance_addr: 127.0.0.1, kvstore: {store: inmemory}}
  storage: {filesystem: {chunks_directory: DIR/chunks, rules_directory: DIR/rules}}
schema_config:
  configs:
    - {from: 2024-01-01, store: tsdb, object_store: filesystem, schema: v13, index: {prefix: index_, period: 24h}}
limits_config:
  ingestion_rate_mb: 10000
  ingestion_burst_size_mb: 10000
  per_stream_rate_limit: 10GB
  per_stream_rate_limit_burst: 10GB
  max_query_series: 10000
analytics: {reporting_enabled: false}
";

/// Another log system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rival {
    VictoriaLogs,
    Loki,
}

impl Rival {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::VictoriaLogs => "victorialogs",
            Self::Loki => "loki",
        }
    }

    /// Whether it takes a protocol.
    pub(super) fn takes(self, protocol: SenderProtocol) -> bool {
        match self {
            Self::VictoriaLogs => !matches!(protocol, SenderProtocol::Fluent | SenderProtocol::OtlpGrpc),
            Self::Loki => matches!(protocol, SenderProtocol::Loki | SenderProtocol::Otlp),
        }
    }

    fn ready_path(self) -> &'static str {
        match self {
            Self::VictoriaLogs => "/health",
            Self::Loki => "/ready",
        }
    }

    /// The metric with the number of accepted records.
    fn accepted_metric(self) -> &'static str {
        match self {
            Self::VictoriaLogs => "vl_rows_ingested_total",
            Self::Loki => "loki_distributor_lines_received_total",
        }
    }
}

/// A running program with an empty directory, killed on drop.
pub(crate) struct RivalServer {
    pub(super) rival: Rival,
    child: Child,
    pub(super) dir: PathBuf,
    pub(crate) http: String,
    pub(super) syslog: String,
    started_cpu: f64,
}

impl RivalServer {
    pub(crate) fn start(context: &BenchContext, rival: Rival, program: &Path) -> anyhow::Result<Self> {
        let dir = context.path(rival.name());
        fs::create_dir_all(&dir)?;
        let (http, syslog) = (free_address()?, free_address()?);
        let mut command = Command::new(program);
        match rival {
            Rival::VictoriaLogs => {
                command.arg(format!("-storageDataPath={}", dir.display()));
                command.arg(format!("-httpListenAddr={http}")).arg(format!("-syslog.listenAddr.tcp={syslog}"));
            }
            Rival::Loki => {
                let (grpc, port_of) = (free_address()?, |address: &str| address.rsplit(':').next().map(str::to_owned));
                let config = LOKI_CONFIG.replace("DIR", &dir.display().to_string());
                let config = config.replace("PORT", &port_of(&http).unwrap_or_default());
                let config = config.replace("GRPC", &port_of(&grpc).unwrap_or_default());
                let file = dir.with_extension("yaml");
                fs::write(&file, config)?;
                command.arg(format!("-config.file={}", file.display()));
            }
        }
        let log = File::create(dir.with_extension("stderr"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let mut server = Self { rival, child, dir, http, syslog, started_cpu: 0.0 };
        wait::until("the rival being ready", Duration::from_millis(20), WAIT_MAX, || {
            ensure!(server.child.try_wait()?.is_none(), "{} exited: {}", rival.name(), server.log());
            let answer = http_client(&server.http).and_then(|mut http| Ok(http.get(rival.ready_path())?));
            Ok(answer.ok().filter(|answer| answer.status == 200))
        })?;
        server.started_cpu = process::cpu_seconds(server.pid())?;
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU seconds since it was ready.
    pub(super) fn cpu(&self) -> anyhow::Result<f64> {
        Ok(process::cpu_seconds(self.pid())? - self.started_cpu)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.with_extension("stderr")).unwrap_or_default()
    }

    /// Path and content type of a protocol over HTTP.
    pub(super) fn target(&self, protocol: SenderProtocol) -> (&'static str, &'static str) {
        match (self.rival, protocol) {
            (Rival::VictoriaLogs, SenderProtocol::Elasticsearch) => (
                "/insert/elasticsearch/_bulk?_msg_field=message&_time_field=@timestamp&_stream_fields=app",
                "application/x-ndjson",
            ),
            (Rival::VictoriaLogs, SenderProtocol::Otlp) => ("/insert/opentelemetry/v1/logs", "application/x-protobuf"),
            (Rival::VictoriaLogs, _) => ("/insert/loki/api/v1/push", "application/x-protobuf"),
            (Rival::Loki, SenderProtocol::Otlp) => ("/otlp/v1/logs", "application/x-protobuf"),
            (Rival::Loki, _) => ("/loki/api/v1/push", "application/x-protobuf"),
        }
    }

    /// The number of accepted records, by its metrics.
    pub(super) fn accepted(&self, http: &mut Client) -> anyhow::Result<u64> {
        Ok(sum(&metrics(http)?, self.rival.accepted_metric()) as u64)
    }

    /// Asks it to write to files what is in memory.
    pub(crate) fn flush(&self, http: &mut Client) -> anyhow::Result<()> {
        match self.rival {
            Rival::VictoriaLogs => http.get("/internal/force_flush")?,
            Rival::Loki => http.call("POST", "/flush", &[], b"")?,
        };
        Ok(())
    }

    /// Whether records are only in memory.
    pub(crate) fn has_unwritten(&self, http: &mut Client) -> anyhow::Result<bool> {
        let metrics = metrics(http)?;
        Ok(match self.rival {
            Rival::VictoriaLogs => sum(&metrics, "vl_storage_rows{type=\"storage/inmemory\"}") > 0.0,
            Rival::Loki => sum(&metrics, "loki_ingester_flush_queue_length") > 0.0,
        })
    }

    /// The number of records that a query finds.
    pub(crate) fn count(&self) -> anyhow::Result<u64> {
        let mut http = http_client(&self.http)?;
        let (query, pointer) = match self.rival {
            Rival::VictoriaLogs => ("/select/logsql/query?query=*%20%7C%20stats%20count()%20n&start=-1d", "/n"),
            // sum(count_over_time({app=~".+"}[1d])) or, of OTLP, {service_name=~".+"}
            Rival::Loki => (
                "/loki/api/v1/query?query=sum(count_over_time(%7Bservice_name%3D~%22.%2B%22%7D%5B1d%5D))",
                "/data/result/0/value/1",
            ),
        };
        let answer = http.get(query)?.text();
        let value: serde_json::Value = serde_json::from_str(answer.trim()).with_context(|| answer.clone())?;
        let count = value.pointer(pointer).and_then(serde_json::Value::as_str).and_then(|count| count.parse().ok());
        count.with_context(|| format!("no count in {answer}"))
    }
}

impl Drop for RivalServer {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn metrics(http: &mut Client) -> anyhow::Result<String> {
    Ok(String::from_utf8(http.get("/metrics")?.body)?)
}

fn free_address() -> anyhow::Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}
