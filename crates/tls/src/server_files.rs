//! The files of a listener, and the settings of rustls that are made of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bucksaw_env::Fs;
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedProtocolVersion};

use crate::certificate;
use crate::file_stamps::FileStamps;
use crate::peer_identity::PeerIdentity;
use crate::pem_files::{TlsFileError, read_certificates, read_key, read_roots, unusable};
use crate::provider::provider;

/// The files and settings of listeners.
#[derive(Clone, Debug)]
pub struct ServerFiles {
    /// The certificate of the server, then those of intermediate CAs, in PEM format.
    pub certificate: PathBuf,
    /// Its private key, in PEM format.
    pub key: PathBuf,
    /// Certificates of the CAs that may sign client certificates. Without it clients are not asked for one.
    pub client_ca: Option<PathBuf>,
    /// Whether clients without a certificate are refused, if there is a client CA.
    pub client_certificates: ClientCertificates,
    /// The lowest version of TLS that clients may use.
    pub version_min: TlsVersion,
}

/// Whether clients need a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Clients without one are refused during the handshake.
    Required,
    /// They are accepted without an identity. Certificates that do not verify are still refused.
    Optional,
}

/// A version of TLS. Older ones are broken and not implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// 1.2
    V1_2,
    /// 1.3
    V1_3,
}

/// What clients speak over TLS, which they may state during the handshake (ALPN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppProtocol {
    /// HTTP/1.1.
    Http,
    /// HTTP/2, or HTTP/1.1 for the answer that HTTP/2 is needed.
    Grpc,
    /// A protocol without a registered name.
    Other,
}

/// Settings of all listeners, from one state of the files.
#[derive(Clone, Debug)]
pub(crate) struct LoadedServer {
    http: Arc<ServerConfig>,
    grpc: Arc<ServerConfig>,
    other: Arc<ServerConfig>,
    /// When the first certificate of the chain expires, in seconds since 1970.
    pub(crate) expiry: i64,
    /// The DNS names of the server's certificate.
    pub(crate) host_names: Vec<String>,
}

impl ServerFiles {
    /// Whether each connection has the certificate of a client.
    pub fn authenticates_clients(&self) -> bool {
        self.client_ca.is_some() && self.client_certificates == ClientCertificates::Required
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.certificate, &self.key].into_iter().chain(&self.client_ca).map(PathBuf::as_path)
    }

    pub(crate) fn stamps(&self, fs: &dyn Fs) -> FileStamps {
        FileStamps::of(fs, self.paths())
    }

    /// Reads the files.
    pub(crate) fn load(&self, fs: &dyn Fs) -> Result<LoadedServer, TlsFileError> {
        let certificates = read_certificates(fs, &self.certificate)?;
        let key = read_key(fs, &self.key)?;
        let expiry = certificates.iter().filter_map(|certificate| certificate::expiry(certificate)).min();
        let expiry = expiry.ok_or_else(|| unusable(&self.certificate, "the certificate cannot be read"))?;
        let names = certificates.first().and_then(|certificate| PeerIdentity::of_certificate(certificate));
        let host_names = names.map(|names| names.dns_names).unwrap_or_default();
        let versions: &[&SupportedProtocolVersion] = match self.version_min {
            TlsVersion::V1_2 => &[&TLS13, &TLS12],
            TlsVersion::V1_3 => &[&TLS13],
        };
        let builder = ServerConfig::builder_with_provider(provider()).with_protocol_versions(versions);
        let builder = builder.map_err(|error| TlsFileError::Settings(error.to_string()))?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(read_roots(fs, path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
                let verifier = match self.client_certificates {
                    ClientCertificates::Required => verifier,
                    ClientCertificates::Optional => verifier.allow_unauthenticated(),
                };
                builder.with_client_cert_verifier(verifier.build().map_err(|error| unusable(path, &error.to_string()))?)
            }
        };
        let config = builder.with_single_cert(certificates, key).map_err(|error| self.explain(&error))?;
        let with_protocols = |names: &[&[u8]]| {
            let mut config = config.clone();
            config.alpn_protocols = names.iter().map(|name| name.to_vec()).collect();
            Arc::new(config)
        };
        Ok(LoadedServer {
            http: with_protocols(&[b"http/1.1"]),
            grpc: with_protocols(&[b"h2", b"http/1.1"]),
            other: with_protocols(&[]),
            expiry,
            host_names,
        })
    }

    fn explain(&self, error: &rustls::Error) -> TlsFileError {
        match error {
            rustls::Error::InconsistentKeys(_) => {
                let certificate = self.certificate.display();
                unusable(&self.key, &format!("the key does not belong to the certificate in {certificate}"))
            }
            error => unusable(&self.certificate, &error.to_string()),
        }
    }
}

impl LoadedServer {
    pub(crate) fn config(&self, protocol: AppProtocol) -> Arc<ServerConfig> {
        Arc::clone(match protocol {
            AppProtocol::Http => &self.http,
            AppProtocol::Grpc => &self.grpc,
            AppProtocol::Other => &self.other,
        })
    }
}
