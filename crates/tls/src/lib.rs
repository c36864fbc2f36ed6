//! TLS of listeners and of clients: certificate files that are read again when they change, settings of rustls, and errors in
//! words for their users.
//!
//! ```text
//!   certificate, key, client CA ─► ServerTls ─► settings of a listener ─► ServerSession of a connection ─► PeerIdentity
//!   roots of the system or a CA ─► ClientTls ─► connection to a node, or TlsFailure
//! ```
//! Invariant: files that cannot be used never replace files that can. A server keeps its last certificate, and reports the error
//! in the log and in a metric.
//!
//! This crate accepts no connections. The acceptor of `bucksaw-sources` runs the handshakes and limits them.
//!
//! ```
//! use bucksaw_env::Env;
//! use bucksaw_tls::{ClientFiles, ClientTls};
//! let files = ClientFiles { ca: Some("/no/such/ca.pem".into()), ..ClientFiles::default() };
//! let error = ClientTls::load(Env::real().fs, files, &[]).unwrap_err();
//! assert_eq!(error.to_string(), "/no/such/ca.pem: the file does not exist");
//! ```
#![deny(clippy::indexing_slicing)]

mod certificate;
mod client;
mod failure;
mod file_stamps;
mod metrics;
mod peer_identity;
mod pem_files;
mod provider;
mod server;
mod server_files;
mod server_session;

pub use client::{ClientFiles, ClientTls};
pub use failure::TlsFailure;
pub use metrics::{HandshakeResult, Metrics};
pub use peer_identity::PeerIdentity;
pub use pem_files::{TlsFileError, first_certificate, root_certificates};
pub use provider::client_config;
pub use server::ServerTls;
pub use server_files::{AppProtocol, ClientCertificates, ServerFiles, TlsVersion};
pub use server_session::ServerSession;
/// A connection to a server, after its handshake.
pub use tokio_rustls::client::TlsStream;

/// Reads `data` as files and as a certificate, for fuzzing.
#[doc(hidden)]
pub fn fuzz_input(data: &[u8]) {
    let path = std::path::Path::new("fuzz.pem");
    let _ = pem_files::parse_certificates(path, data);
    let _ = pem_files::parse_key(path, data);
    let _ = root_certificates(data);
    let _ = certificate::expiry(data);
    if let Some(identity) = PeerIdentity::of_certificate(data) {
        let _ = identity.has_alternative_name("dns:a");
    }
}
