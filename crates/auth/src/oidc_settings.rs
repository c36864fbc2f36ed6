//! The identity provider of a node.

use std::path::PathBuf;

/// A provider that speaks OpenID Connect, and how a node is known to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcSettings {
    /// The URL of the provider, exactly as its tokens name it.
    pub issuer: String,
    /// The name of this client at the provider.
    pub client_id: String,
    /// A file with the secret of the client; `None` for a public client.
    pub client_secret_file: Option<PathBuf>,
    /// The CAs that are trusted; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
    /// The URL of `/auth/callback` at the node or its proxy, as it is registered at the provider.
    pub redirect_url: String,
    /// The claim with the name of a user.
    pub name_claim: String,
    /// The claim with the groups of a user.
    pub groups_claim: String,
    /// The scopes of OAuth that are asked for.
    pub request_scopes: Vec<String>,
}
