//! The programs that take the requests.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use bucksaw_faults::wait;

use super::protocol::SenderProtocol;
use super::rival::{Rival, RivalServer, WAIT_MAX};
use crate::context::BenchContext;
use crate::node::{BenchNode, http_client};
use crate::process;

/// The idle time after which everything counts as stored, and CPU seconds in that time that a merging program exceeds. VictoriaLogs
/// writes to the disk what is in memory for 5 seconds.
const IDLE_TIME: Duration = Duration::from_secs(8);
const IDLE_CPU_SECONDS: f64 = 0.2;

/// A running program with an empty directory.
pub(super) enum SenderServer {
    Bucksaw(BenchNode),
    Rival(RivalServer),
}

impl SenderServer {
    pub(super) fn bucksaw(context: &BenchContext) -> anyhow::Result<Self> {
        let listeners = ["--listen-syslog", "--listen-fluent", "--listen-otlp"];
        let more = listeners.map(|listener| [listener, "127.0.0.1:0"]).concat();
        Ok(Self::Bucksaw(context.node("node", &more)?))
    }

    pub(super) fn rival(context: &BenchContext, rival: Rival, program: &Path) -> anyhow::Result<Self> {
        Ok(Self::Rival(RivalServer::start(context, rival, program)?))
    }

    /// The address for HTTP.
    pub(super) fn http(&self) -> &str {
        match self {
            Self::Bucksaw(node) => node.address("http").unwrap_or_default(),
            Self::Rival(server) => &server.http,
        }
    }

    /// The address of a protocol that is not HTTP.
    pub(super) fn stream(&self, protocol: SenderProtocol) -> anyhow::Result<&str> {
        match self {
            Self::Bucksaw(node) => node.address(if protocol == SenderProtocol::Fluent { "fluent" } else { "syslog" }),
            Self::Rival(server) => Ok(&server.syslog),
        }
    }

    /// The address of OTLP over gRPC.
    pub(super) fn otlp_grpc(&self) -> anyhow::Result<&str> {
        match self {
            Self::Bucksaw(node) => node.address("otlp"),
            Self::Rival(server) => bail!("{} is not measured with OTLP over gRPC", server.rival.name()),
        }
    }

    /// Path and content type of a protocol over HTTP.
    pub(super) fn target(&self, protocol: SenderProtocol) -> (&'static str, &'static str) {
        match (self, protocol) {
            (Self::Rival(server), _) => server.target(protocol),
            (Self::Bucksaw(_), SenderProtocol::Elasticsearch) => ("/_bulk", "application/x-ndjson"),
            (Self::Bucksaw(_), SenderProtocol::Otlp) => ("/v1/logs", "application/x-protobuf"),
            (Self::Bucksaw(_), _) => ("/loki/api/v1/push", "application/x-protobuf"),
        }
    }

    fn pid(&self) -> u32 {
        match self {
            Self::Bucksaw(node) => node.pid(),
            Self::Rival(server) => server.pid(),
        }
    }

    /// Waits until it has accepted this number of records.
    pub(super) fn wait_accepted(&self, records: u64) -> anyhow::Result<()> {
        let mut http = http_client(self.http())?;
        wait::until("all records being accepted", Duration::from_millis(20), WAIT_MAX, || {
            let accepted = match self {
                Self::Bucksaw(node) => node.metric("bucksaw_ingest_records_total")? as u64,
                Self::Rival(server) => server.accepted(&mut http)?,
            };
            ensure!(accepted <= records, "{records} records were sent, and {accepted} accepted");
            Ok((accepted == records).then_some(()))
        })
    }

    /// Waits until everything is stored on the disk and merged. Returns the CPU seconds that all of it took.
    pub(super) fn wait_settled(&self) -> anyhow::Result<f64> {
        let server = match self {
            Self::Bucksaw(node) => {
                return Ok(node.wait_settled(node.metric("bucksaw_ingest_bytes_total")? as u64)?.1);
            }
            Self::Rival(server) => server,
        };
        let mut http = http_client(self.http())?;
        server.flush(&mut http)?;
        let (mut rest, mut stored) = ((Instant::now(), server.cpu()?), 0);
        wait::until("the program to become idle", Duration::from_millis(250), WAIT_MAX, || {
            let (cpu, disk) = (server.cpu()?, self.disk_bytes()?);
            if cpu - rest.1 >= IDLE_CPU_SECONDS || disk != stored || server.has_unwritten(&mut http)? {
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
            Self::Rival(server) => process::disk_bytes(&server.dir),
        }
    }

    /// The number of records that a query finds.
    pub(super) fn count(&self) -> anyhow::Result<u64> {
        match self {
            Self::Bucksaw(node) => node.count(),
            Self::Rival(server) => server.count(),
        }
    }

    /// Stops it and returns its directory.
    pub(super) fn stop(self) -> anyhow::Result<PathBuf> {
        match self {
            Self::Bucksaw(node) => {
                let dir = node.dir().to_owned();
                node.stop()?;
                Ok(dir)
            }
            Self::Rival(server) => Ok(server.dir.clone()),
        }
    }
}
