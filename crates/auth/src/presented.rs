//! What a client presents to be recognised by.

use bucksaw_record::Millis;

use crate::SecretText;

/// Longest name of a user of a proxy, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// Most groups of one user that are considered.
const GROUPS_MAX: usize = 256;

/// The credentials of a connection or request. The first of the fields that is present decides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Presented<'a> {
    /// A token.
    pub token: Option<&'a SecretText>,
    /// The user that another program has authenticated: a reverse proxy, by
    /// [`Authenticator::proxied_user`](crate::Authenticator::proxied_user), which checks its address; or an identity provider.
    pub user: Option<&'a ExternalUser>,
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

/// A user that a reverse proxy or an identity provider has authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalUser {
    /// The name of the user.
    pub(crate) name: String,
    /// The groups of the user.
    pub(crate) groups: Vec<String>,
    /// When the user must be authenticated again.
    pub(crate) expires: Option<Millis>,
}

impl ExternalUser {
    /// A user of this name and these groups, until `expires`.
    pub fn new(name: impl Into<String>, groups: Vec<String>, expires: Option<Millis>) -> Self {
        Self { name: name.into(), groups, expires }
    }

    /// The user that a proxy names in headers: a name, and groups with commas between them. `None` without a name.
    pub fn of_headers(name: &str, groups: &str) -> Option<Self> {
        let name = Some(name.trim()).filter(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX)?;
        let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty()).take(GROUPS_MAX);
        Some(Self::new(name, groups.map(str::to_owned).collect(), None))
    }

    /// The name of the user.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The groups of the user.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// When the user must be authenticated again.
    pub fn expires(&self) -> Option<Millis> {
        self.expires
    }
}
