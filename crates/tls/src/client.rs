//! Connections to servers, with files that are read again when they change.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bucksaw_env::{Fs, lock};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::failure::TlsFailure;
use crate::file_stamps::FileStamps;
use crate::pem_files::{TlsFileError, read_certificates, read_key, read_roots, unusable};
use crate::provider::{client_builder, client_config};

/// The files of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// The only CAs that are trusted; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// The certificate of the client, then those of intermediate CAs.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate.
    pub key: Option<PathBuf>,
}

/// What a client needs for TLS. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ClientTls(Arc<SharedClient>);

#[derive(Debug)]
struct SharedClient {
    fs: Arc<dyn Fs>,
    files: ClientFiles,
    protocols: Vec<Vec<u8>>,
    /// The settings in use, and the state of the files at the last attempt to read them. Locked without I/O.
    current: Mutex<(Arc<ClientConfig>, FileStamps)>,
}

impl ClientFiles {
    /// Whether a file is named.
    pub fn is_any(&self) -> bool {
        self.paths().next().is_some()
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.ca, &self.certificate, &self.key].into_iter().flatten().map(PathBuf::as_path)
    }

    fn load(&self, fs: &dyn Fs, protocols: &[Vec<u8>]) -> Result<Arc<ClientConfig>, TlsFileError> {
        let roots = match &self.ca {
            Some(path) => read_roots(fs, path)?,
            None => system_roots()?,
        };
        let protocols: Vec<&[u8]> = protocols.iter().map(Vec::as_slice).collect();
        let (certificate, key) = match (&self.certificate, &self.key) {
            (None, None) => return client_config(roots, &protocols).map(Arc::new),
            (Some(certificate), Some(key)) => (certificate, key),
            (Some(_), None) => return Err(TlsFileError::Settings("a certificate needs its private key".to_owned())),
            (None, Some(_)) => return Err(TlsFileError::Settings("a private key needs its certificate".to_owned())),
        };
        let chain = read_certificates(fs, certificate)?;
        let builder = client_builder(roots)?;
        let mut config = builder.with_client_auth_cert(chain, read_key(fs, key)?).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                unusable(key, &format!("the key does not belong to the certificate in {}", certificate.display()))
            }
            error => unusable(certificate, &error.to_string()),
        })?;
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Arc::new(config))
    }
}

impl ClientTls {
    /// Reads the files. `protocols` are the names of what will be spoken over TLS (ALPN); none for a protocol without a name.
    ///
    /// # Errors
    /// The first file that cannot be used, or a system without root certificates.
    pub fn load(fs: Arc<dyn Fs>, files: ClientFiles, protocols: &[&[u8]]) -> Result<Self, TlsFileError> {
        let protocols: Vec<Vec<u8>> = protocols.iter().map(|name| name.to_vec()).collect();
        let stamps = FileStamps::of(&*fs, files.paths());
        let current = Mutex::new((files.load(&*fs, &protocols)?, stamps));
        Ok(Self(Arc::new(SharedClient { fs, files, protocols, current })))
    }

    /// Begins TLS on a connection to `host`, a name or an address, as which the server must identify itself. Reads files that
    /// have changed; those that cannot be used are ignored until they change again.
    ///
    /// # Errors
    /// [`TlsFailure`]. With TLS 1.3 a server refuses the certificate of a client after that; then reading fails.
    pub async fn connect(&self, host: &str, socket: TcpStream) -> Result<TlsStream<TcpStream>, TlsFailure> {
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name).map_err(|_| TlsFailure::Other(format!("{host} is no host name")))?;
        let connected = TlsConnector::from(self.config()).connect(name, socket).await;
        connected.map_err(|error| TlsFailure::of_handshake(&error))
    }

    fn config(&self) -> Arc<ClientConfig> {
        let shared = &*self.0;
        let stamps = FileStamps::of(&*shared.fs, shared.files.paths());
        if lock(&shared.current).1 != stamps {
            let loaded = shared.files.load(&*shared.fs, &shared.protocols);
            let mut current = lock(&shared.current);
            current.1 = stamps;
            match loaded {
                Ok(config) => current.0 = config,
                Err(error) => {
                    tracing::error!(%error, "changed certificate files cannot be used: the previous ones stay in use");
                }
            }
        }
        Arc::clone(&lock(&shared.current).0)
    }
}

/// The root certificates of the system, which `SSL_CERT_FILE` and `SSL_CERT_DIR` replace.
fn system_roots() -> Result<RootCertStore, TlsFileError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        let reason = found.errors.first().map_or_else(|| "none found".to_owned(), ToString::to_string);
        return Err(TlsFileError::NoSystemRoots(reason));
    }
    Ok(roots)
}
