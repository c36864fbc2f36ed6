//! Who is at the other end of an accepted connection.

use std::net::SocketAddr;
use std::sync::Arc;

use bucksaw_tls::PeerIdentity;

/// The client of a connection. Requests of HTTP and gRPC have an `Arc` of it as an extension.
#[derive(Clone, Debug)]
pub struct ConnectionPeer {
    /// The address that the connection comes from, which may be that of a proxy.
    pub address: SocketAddr,
    /// Whether the connection is encrypted by TLS.
    pub is_encrypted: bool,
    /// The names in the client's certificate, if it gave one; it was verified.
    pub identity: Option<Arc<PeerIdentity>>,
}

/// The alternative names in a certificate, as an auth file has them: `dns:NAME` in small letters, and `uri:URI`.
pub fn alternative_names(identity: &PeerIdentity) -> Vec<String> {
    let dns = identity.dns_names.iter().map(|name| format!("dns:{}", name.to_ascii_lowercase()));
    dns.chain(identity.uris.iter().map(|uri| format!("uri:{uri}"))).collect()
}
