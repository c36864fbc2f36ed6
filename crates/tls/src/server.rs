//! The certificate of all listeners of a process, read again when its files change.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::{Env, Reload, Reloads, Tasks, lock, run_blocking};
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tracing::{error, info, warn};

use crate::file_stamps::FileStamps;
use crate::metrics::Metrics;
use crate::pem_files::TlsFileError;
use crate::server_files::{AppProtocol, LoadedServer, ServerFiles};
use crate::server_session::ServerSession;

/// How often the files are checked for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The remaining validity below which the log warns, in seconds: a week.
const EXPIRY_WARNING_SECONDS: i64 = 7 * 24 * 3_600;

/// What listeners need for TLS. Connections keep the certificate that they began with.
#[derive(Debug)]
pub struct ServerTls {
    files: ServerFiles,
    env: Env,
    /// Its counters of handshakes belong to the acceptor.
    pub metrics: Metrics,
    /// The settings in use, and the state of the files at the last attempt to read them. Locked without I/O.
    current: Mutex<(LoadedServer, FileStamps)>,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// The first file that cannot be used.
    pub fn load(env: Env, files: ServerFiles, metrics: Metrics) -> Result<Self, TlsFileError> {
        // Before the files are read, so that a change in between is noticed.
        let stamps = files.stamps(&*env.fs);
        let loaded = files.load(&*env.fs)?;
        if let Ok(mode) = env.fs.mode(&files.key)
            && mode & 0o077 != 0
        {
            warn!(file = %files.key.display(), mode = format!("{mode:04o}"), "other users can access the private key: chmod 600 is safer");
        }
        let tls = Self { files, env, metrics, current: Mutex::new((loaded, stamps)) };
        tls.report_expiry();
        Ok(tls)
    }

    /// The settings for a new connection.
    fn config(&self, protocol: AppProtocol) -> Arc<ServerConfig> {
        lock(&self.current).0.config(protocol)
    }

    /// Completes the handshake with a client that connected by TCP.
    ///
    /// # Errors
    /// The connection broke, or one side refuses the other. Then the client was sent the reason, and reads it only if the caller closes
    /// the returned stream after the client has.
    pub async fn handshake(
        &self,
        protocol: AppProtocol,
        stream: TcpStream,
    ) -> Result<(TcpStream, ServerSession), (std::io::Error, TcpStream)> {
        let accepted = TlsAcceptor::from(self.config(protocol)).accept(stream).into_fallible().await?;
        let (stream, connection) = accepted.into_inner();
        Ok((stream, ServerSession::new(connection)))
    }

    /// The DNS names of the certificate in use; the first label of a name may be `*`.
    pub fn host_names(&self) -> Vec<String> {
        lock(&self.current).0.host_names.clone()
    }

    /// Whether each connection has the certificate of a client.
    pub fn authenticates_clients(&self) -> bool {
        self.files.authenticates_clients()
    }

    /// Reads the files again if they have changed. Unusable files change nothing but the log, a metric and `reloads`; they are read
    /// again when they change again.
    pub fn reload_if_changed(&self, reloads: &Reloads) {
        let stamps = self.files.stamps(&*self.env.fs);
        if lock(&self.current).1 == stamps {
            return;
        }
        let report = |failure| {
            reloads.report(&Reload { name: "certificate", path: &self.files.certificate, failure });
        };
        match self.files.load(&*self.env.fs) {
            Ok(loaded) => {
                *lock(&self.current) = (loaded, stamps);
                self.metrics.certificate_reloads.inc();
                info!(certificate = %self.files.certificate.display(), "the changed certificate is in use");
                self.report_expiry();
                report(None);
            }
            Err(error) => {
                lock(&self.current).1 = stamps;
                self.metrics.certificate_reloads_failed.inc();
                error!(%error, "changed certificate files cannot be used: the previous certificate stays in use");
                report(Some(&error.to_string()));
            }
        }
    }

    /// Checks the files for changes until it is dropped.
    pub async fn watch(self: Arc<Self>, tasks: Arc<dyn Tasks>, reloads: Reloads) {
        loop {
            tasks.sleep(CHECK_INTERVAL).await;
            let (tls, reloads) = (Arc::clone(&self), reloads.clone());
            run_blocking(&tasks, move || tls.reload_if_changed(&reloads)).await;
        }
    }

    fn report_expiry(&self) {
        let expiry = lock(&self.current).0.expiry;
        self.metrics.certificate_expiry_seconds.set(expiry);
        let left = expiry - i64::try_from(self.env.clock.unix_ms() / 1_000).unwrap_or(i64::MAX);
        if left < EXPIRY_WARNING_SECONDS {
            let file = self.files.certificate.display();
            warn!(certificate = %file, hours_left = left / 3_600, "the certificate expires soon or has expired: replace it; no restart is needed");
        }
    }
}
