//! The connection by which a request came.

use std::net::{IpAddr, Ipv4Addr};

/// What the listener knows of the connection of a request. An extension of each request.
#[derive(Clone, Debug)]
pub(crate) struct ClientConnection {
    /// The address of the client.
    pub(crate) peer: IpAddr,
    /// Whether it is encrypted.
    pub(crate) is_encrypted: bool,
    /// The names in the certificate of the client, if it has proven to own one.
    pub(crate) certificate: Option<ClientCertificate>,
}

/// The names in a certificate.
#[derive(Clone, Debug)]
pub(crate) struct ClientCertificate {
    pub(crate) subject: String,
    /// Alternative names, as `dns:NAME`.
    pub(crate) sans: Vec<String>,
}

impl Default for ClientConnection {
    fn default() -> Self {
        Self { peer: IpAddr::V4(Ipv4Addr::UNSPECIFIED), is_encrypted: false, certificate: None }
    }
}
