//! The contents of an auth file, arranged for look-ups.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::presented::{CertificateNames, ExternalUser};
use crate::{OidcSettings, Principal, TokenDigest};

/// The credentials of an auth file. Made by [`AuthRules::parse`](crate::AuthRules::parse).
#[derive(Debug, Default)]
pub struct AuthRules {
    /// By [`TokenDigest::bucket`].
    pub(crate) tokens: HashMap<u64, Vec<(TokenDigest, Arc<Principal>)>>,
    /// By subject, and by alternative name with its kind.
    pub(crate) certificates: HashMap<String, Arc<Principal>>,
    pub(crate) proxy: Option<ProxyRules>,
    pub(crate) oidc: Option<Arc<OidcSettings>>,
    /// In the order of the file.
    pub(crate) groups: Vec<GroupRules>,
}

/// A reverse proxy that authenticates users.
#[derive(Debug)]
pub(crate) struct ProxyRules {
    /// The addresses from which its headers are believed.
    pub(crate) from: Vec<IpAddr>,
    pub(crate) user_header: String,
    pub(crate) groups_header: Option<String>,
}

/// What the users of a group may do.
#[derive(Debug)]
pub(crate) struct GroupRules {
    /// The name of the group, and the rights of its users.
    pub(crate) rights: Arc<Principal>,
}

impl AuthRules {
    /// The number of tokens, certificates and groups.
    pub fn credentials(&self) -> usize {
        self.tokens.values().map(Vec::len).sum::<usize>() + self.certificates.len() + self.groups.len()
    }

    /// The tokens, by name.
    pub fn tokens(&self) -> Vec<&Principal> {
        let mut tokens: Vec<&Principal> = self.tokens.values().flatten().map(|(_, principal)| &**principal).collect();
        tokens.sort_by(|a, b| a.name.cmp(&b.name));
        tokens
    }

    pub(crate) fn by_digest(&self, digest: &TokenDigest) -> Option<&Arc<Principal>> {
        let bucket = self.tokens.get(&digest.bucket())?;
        bucket.iter().find(|(known, _)| known == digest).map(|(_, principal)| principal)
    }

    /// The token of this name, with its digest.
    pub(crate) fn by_name(&self, name: &str) -> Option<(&TokenDigest, &Arc<Principal>)> {
        let mut tokens = self.tokens.values().flatten();
        tokens.find(|(_, principal)| principal.name == name).map(|(digest, principal)| (digest, principal))
    }

    /// The first name of a certificate that the file has, with its principal.
    pub(crate) fn by_certificate<'a>(&self, names: CertificateNames<'a>) -> Option<(&'a str, &Arc<Principal>)> {
        let mut all = std::iter::once(names.subject).chain(names.sans.iter().map(String::as_str));
        all.find_map(|name| self.certificates.get(name).map(|principal| (name, principal)))
    }

    /// The user with the rights of the first group of the file to which it belongs. Rights of several groups are not merged:
    /// the scopes of one would apply to the labels of another.
    pub(crate) fn by_groups(&self, user: &ExternalUser) -> Option<Principal> {
        let group = self.groups.iter().find(|group| user.groups.contains(&group.rights.name))?;
        Some(Principal { name: user.name.clone(), expires: user.expires, ..(*group.rights).clone() })
    }
}
