//! TLS of listeners.

use std::path::PathBuf;
use std::sync::Arc;

use bucksaw_env::Env;
use bucksaw_sources::{HandshakeSlots, ListenerTls};
use bucksaw_tls::{ClientCertificates, Metrics, ServerFiles, ServerTls, TlsVersion};
use clap::{Args, ValueEnum};

use crate::failure::UsageError;

/// The certificate of listeners.
#[derive(Clone, Debug, Args)]
pub(crate) struct ListenerTlsArgs {
    /// Certificate of the listeners in PEM format, followed by those of intermediate CAs; off by default
    ///
    /// With it every TCP listener for clients speaks TLS, and nothing else. Needs --tls-key. Changed files are in use
    /// within seconds, without a restart. See docs/tls.md.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert in PEM format
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,

    /// File with the CA of client certificates: clients without one are refused; off by default
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_client_ca: Option<PathBuf>,

    /// Lowest version of TLS that clients may use
    #[arg(long, value_name = "VERSION", value_enum, default_value = "1.2")]
    pub(crate) tls_min_version: TlsVersionName,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TlsVersionName {
    #[value(name = "1.2")]
    V12,
    #[value(name = "1.3")]
    V13,
}

impl ListenerTlsArgs {
    /// Whether the listeners speak TLS.
    pub(crate) fn is_on(&self) -> bool {
        self.tls_cert.is_some()
    }

    /// Whether each client proves who it is by a certificate.
    pub(crate) fn authenticates_clients(&self) -> bool {
        self.is_on() && self.tls_client_ca.is_some()
    }

    /// Reads the files; `None` without a certificate.
    ///
    /// # Errors
    /// One flag is missing, or a file cannot be used.
    pub(crate) fn load(
        &self,
        env: &Env,
        client_certificates: ClientCertificates,
        metrics: Metrics,
        handshakes_max: usize,
    ) -> anyhow::Result<Option<ListenerTls>> {
        let (certificate, key) = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
            (Some(_), None) => {
                return Err(UsageError("--tls-cert needs --tls-key, the file with its private key".to_owned()).into());
            }
            (None, Some(_)) => {
                return Err(UsageError("--tls-key needs --tls-cert, the file with its certificate".to_owned()).into());
            }
            (None, None) if self.tls_client_ca.is_some() => {
                let problem = "--tls-client-ca needs --tls-cert and --tls-key: clients show certificates over TLS only";
                return Err(UsageError(problem.to_owned()).into());
            }
            (None, None) => return Ok(None),
        };
        let version_min = match self.tls_min_version {
            TlsVersionName::V12 => TlsVersion::V1_2,
            TlsVersionName::V13 => TlsVersion::V1_3,
        };
        let client_ca = self.tls_client_ca.clone();
        let files = ServerFiles { certificate, key, client_ca, client_certificates, version_min };
        let server = Arc::new(ServerTls::load(env.clone(), files, metrics)?);
        Ok(Some(ListenerTls { server, slots: Arc::new(HandshakeSlots::new(handshakes_max)) }))
    }
}
