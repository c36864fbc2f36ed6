//! The programs that take the requests.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use bucksaw_faults::wait;

use super::protocol::SenderProtocol;
use crate::context::BenchContext;
use crate::node::{BenchNode, http_client, sum};
use crate::process;

const WAIT_MAX: Duration = Duration::from_secs(900);

/// The idle time after which everything counts as stored, and CPU seconds in that time that a merging program exceeds. VictoriaLogs
/// writes to the disk what is in memory for 5 seconds.
const IDLE_TIME: Duration = Duration::from_secs(8);
const IDLE_CPU_SECONDS: f64 = 0.2;

/// A running program with an empty directory.
pub(super) enum SenderServer {
    Bucksaw(BenchNode),
    Victoria(VictoriaLogs),
}

/// VictoriaLogs, killed on drop.
pub(super) struct VictoriaLogs {
    child: Child,
    dir: PathBuf,
    http: String,
    syslog: String,
    started_cpu: f64,
}

impl SenderServer {
    pub(super) fn bucksaw(context: &BenchContext) -> anyhow::Result<Self> {
        let listeners = ["--listen-syslog", "--listen-fluent", "--listen-otlp"];
        let more = listeners.map(|listener| [listener, "127.0.0.1:0"]).concat();
        Ok(Self::Bucksaw(context.node("node", &more)?))
    }

    pub(super) fn victoria(context: &BenchContext, program: &Path) -> anyhow::Result<Self> {
        let dir = context.path("victorialogs");
        fs::create_dir_all(&dir)?;
        let (http, syslog) = (free_address()?, free_address()?);
        let log = File::create(dir.with_extension("stderr"))?;
        let child = Command::new(program)
            .arg(format!("-storageDataPath={}", dir.display()))
            .arg(format!("-httpListenAddr={http}"))
            .arg(format!("-syslog.listenAddr.tcp={syslog}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut server = VictoriaLogs { child, dir, http, syslog, started_cpu: 0.0 };
        wait::until("VictoriaLogs being ready", Duration::from_millis(20), WAIT_MAX, || {
            let answer = http_client(&server.http).and_then(|mut http| Ok(http.get("/health")?));
            Ok(answer.ok().filter(|answer| answer.status == 200))
        })?;
        server.started_cpu = process::cpu_seconds(server.child.id())?;
        Ok(Self::Victoria(server))
    }

    /// The address for HTTP.
    pub(super) fn http(&self) -> &str {
        match self {
            Self::Bucksaw(node) => node.address("http").unwrap_or_default(),
            Self::Victoria(server) => &server.http,
        }
    }

    /// The address of a protocol that is not HTTP.
    pub(super) fn stream(&self, protocol: SenderProtocol) -> anyhow::Result<&str> {
        match self {
            Self::Bucksaw(node) => node.address(if protocol == SenderProtocol::Fluent { "fluent" } else { "syslog" }),
            Self::Victoria(server) => Ok(&server.syslog),
        }
    }

    /// The address of OTLP over gRPC.
    pub(super) fn otlp_grpc(&self) -> anyhow::Result<&str> {
        match self {
            Self::Bucksaw(node) => node.address("otlp"),
            Self::Victoria(_) => bail!("VictoriaLogs has no listener for OTLP over gRPC"),
        }
    }

    /// Path and content type of a protocol over HTTP.
    pub(super) fn target(&self, protocol: SenderProtocol) -> (String, &'static str) {
        let (own, of_victoria, format) = match protocol {
            SenderProtocol::Elasticsearch => (
                "/_bulk",
                "/insert/elasticsearch/_bulk?_msg_field=message&_time_field=@timestamp&_stream_fields=app",
                "application/x-ndjson",
            ),
            SenderProtocol::Otlp => ("/v1/logs", "/insert/opentelemetry/v1/logs", "application/x-protobuf"),
            _ => ("/loki/api/v1/push", "/insert/loki/api/v1/push", "application/x-protobuf"),
        };
        let target = if matches!(self, Self::Bucksaw(_)) { own } else { of_victoria };
        (target.to_owned(), format)
    }

    fn pid(&self) -> u32 {
        match self {
            Self::Bucksaw(node) => node.pid(),
            Self::Victoria(server) => server.child.id(),
        }
    }

    fn cpu(&self) -> anyhow::Result<f64> {
        match self {
            Self::Bucksaw(node) => node.cpu(),
            Self::Victoria(server) => Ok(process::cpu_seconds(server.child.id())? - server.started_cpu),
        }
    }

    /// Waits until it has accepted this number of records.
    pub(super) fn wait_accepted(&self, records: u64) -> anyhow::Result<()> {
        let name = match self {
            Self::Bucksaw(_) => "bucksaw_ingest_records_total",
            Self::Victoria(_) => "vl_rows_ingested_total",
        };
        let mut http = http_client(self.http())?;
        wait::until("all records being accepted", Duration::from_millis(20), WAIT_MAX, || {
            let metrics = String::from_utf8(http.get("/metrics")?.body)?;
            let accepted = sum(&metrics, name) as u64;
            ensure!(accepted <= records, "{records} records were sent, and {accepted} accepted");
            Ok((accepted == records).then_some(()))
        })
    }

    /// Waits until everything is stored on the disk and merged. Returns the CPU seconds that all of it took.
    pub(super) fn wait_settled(&self) -> anyhow::Result<f64> {
        if let Self::Bucksaw(node) = self {
            return Ok(node.wait_settled(node.metric("bucksaw_ingest_bytes_total")? as u64)?.1);
        }
        let mut http = http_client(self.http())?;
        http.get("/internal/force_flush")?;
        let (mut rest, mut stored) = ((Instant::now(), self.cpu()?), 0);
        wait::until("the program to become idle", Duration::from_millis(250), WAIT_MAX, || {
            let (cpu, disk) = (self.cpu()?, self.disk_bytes()?);
            let metrics = String::from_utf8(http.get("/metrics")?.body)?;
            let in_memory = sum(&metrics, "vl_storage_rows{type=\"storage/inmemory\"}");
            if cpu - rest.1 >= IDLE_CPU_SECONDS || disk != stored || in_memory > 0.0 {
                (rest, stored) = ((Instant::now(), cpu), disk);
            }
            Ok((rest.0.elapsed() >= IDLE_TIME).then_some(rest.1))
        })
    }

    pub(super) fn peak_mb(&self) -> anyhow::Result<f64> {
        process::peak_mb(self.pid())
    }

    pub(super) fn disk_bytes(&self) -> anyhow::Result<u64> {
        match self {
            Self::Bucksaw(node) => {
                node.wait_removed()?;
                process::disk_bytes(node.dir())
            }
            Self::Victoria(server) => process::disk_bytes(&server.dir),
        }
    }

    /// The number of records that a query finds.
    pub(super) fn count(&self) -> anyhow::Result<u64> {
        let server = match self {
            Self::Bucksaw(node) => return node.count(),
            Self::Victoria(server) => server,
        };
        let mut http = http_client(&server.http)?;
        let answer = http.get("/select/logsql/query?query=*%20%7C%20stats%20count()%20n&start=-1d")?.text();
        let value: serde_json::Value = serde_json::from_str(answer.trim()).with_context(|| answer.clone())?;
        let count = value.get("n").and_then(serde_json::Value::as_str).and_then(|count| count.parse().ok());
        count.with_context(|| format!("no count in {answer}"))
    }

    /// Stops it and returns its directory.
    pub(super) fn stop(self) -> anyhow::Result<PathBuf> {
        match self {
            Self::Bucksaw(node) => {
                let dir = node.dir().to_owned();
                node.stop()?;
                Ok(dir)
            }
            Self::Victoria(server) => Ok(server.dir.clone()),
        }
    }
}

impl Drop for VictoriaLogs {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> anyhow::Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}
