//! What a client presents to be recognised by.

use crate::SecretText;

/// The credentials of a connection or request. The first of the fields that is present decides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Presented<'a> {
    /// A token.
    pub token: Option<&'a SecretText>,
    /// The user that a reverse proxy has authenticated; from
    /// [`Authenticator::proxied_user`](crate::Authenticator::proxied_user), which checks the address of the proxy.
    pub proxied: Option<&'a ProxiedUser>,
    /// The names in the certificate that the client has proven to own, signed by an authority that the listener trusts.
    pub certificate: Option<CertificateNames<'a>>,
}

/// The names in a client certificate.
#[derive(Clone, Copy, Debug, Default)]
pub struct CertificateNames<'a> {
    /// The subject, such as `CN=agent-7`.
    pub subject: &'a str,
    /// The alternative names, each with its kind: `dns:agent-7.example`.
    pub sans: &'a [String],
}

/// A user that a reverse proxy has authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxiedUser {
    /// The name of the user.
    pub(crate) name: String,
    /// The groups that the proxy states.
    pub(crate) groups: Vec<String>,
}
