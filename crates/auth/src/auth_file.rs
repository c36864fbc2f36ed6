//! The auth file: TOML, read strictly.
//!
//! ```toml
//! [[token]]
//! name = "web-agents"
//! sha256 = "…"                    # 64 hexadecimal digits
//! scopes = ["ingest"]             # of ingest, read, admin
//! labels = { tenant = "a" }       # optional
//! tenants = ["a", "b"]            # optional, in place of a label `tenant`
//! expires = 2027-01-01T00:00:00Z  # optional
//! bytes_per_second = 10_000_000   # optional
//! queries_max = 4                 # optional
//! fluentd = true                  # optional: the digest is also a password of Fluentd's protocol
//!
//! [[client_certificate]]
//! subject = "CN=agent-7"          # or san = "dns:agent-7.example"
//! name = "agent-7"
//! scopes = ["ingest"]
//!
//! [proxy]
//! from = ["10.0.0.5"]
//! user_header = "X-Forwarded-User"
//! groups_header = "X-Forwarded-Groups"
//!
//! [oidc]
//! issuer = "https://id.example"
//! client_id = "bucksaw"
//! client_secret_file = "/etc/bucksaw/oidc.secret"      # optional
//! redirect_url = "https://logs.example/auth/callback"
//! groups_claim = "groups"                              # optional
//!
//! [[group]]                       # of the users of [proxy] and [oidc]
//! name = "sre"
//! scopes = ["read", "admin"]
//! ```
//! Unknown keys are errors, because a misspelt `labels` would give access to everything.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bucksaw_record::time::event_time_text;
use bucksaw_record::{Labels, Millis};
use serde::Deserialize;
use toml::Spanned;
use toml::value::Datetime;

use crate::auth_rules::{GroupRules, ProxyRules};
use crate::principal::{ClientLimits, Principal, TENANT_LABEL};
use crate::{AccessScope, AuthFileError, AuthRules, FILE_BYTES_MAX, OidcSettings, TokenDigest};

/// Longest name of a credential, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Most tenants of one credential.
const TENANTS_MAX: usize = 1_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthFileText {
    #[serde(default)]
    token: Vec<Spanned<EntryText>>,
    #[serde(default)]
    client_certificate: Vec<Spanned<EntryText>>,
    proxy: Option<Spanned<ProxyText>>,
    oidc: Option<Spanned<OidcText>>,
    #[serde(default)]
    group: Vec<Spanned<EntryText>>,
}

/// The keys of all kinds of entries.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryText {
    name: String,
    sha256: Option<String>,
    subject: Option<String>,
    san: Option<String>,
    scopes: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    tenants: Vec<String>,
    expires: Option<Datetime>,
    bytes_per_second: Option<u64>,
    queries_max: Option<u32>,
    #[serde(default)]
    fluentd: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProxyText {
    from: Vec<String>,
    user_header: String,
    groups_header: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OidcText {
    issuer: String,
    client_id: String,
    client_secret_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    redirect_url: String,
    name_claim: Option<String>,
    groups_claim: Option<String>,
    scopes: Option<Vec<String>>,
}

impl AuthRules {
    /// Reads the text of an auth file.
    ///
    /// # Errors
    /// [`AuthFileError::Invalid`] with the line, [`AuthFileError::TooLong`].
    pub fn parse(text: &str) -> Result<Self, AuthFileError> {
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(AuthFileError::TooLong);
        }
        let invalid = |span: Range<usize>, message: String| {
            let before = text.get(..span.start).unwrap_or_default();
            AuthFileError::Invalid { line: before.matches('\n').count() + 1, message }
        };
        let file: AuthFileText = toml::from_str(text)
            .map_err(|error| invalid(error.span().unwrap_or_default(), error.message().replace('\n', " ")))?;
        let mut rules = Self::default();
        let mut names = BTreeSet::new();
        for entry in file.token {
            let (span, entry) = (entry.span(), entry.into_inner());
            rules.add_token(entry, &mut names).map_err(|message| invalid(span, message))?;
        }
        for entry in file.client_certificate {
            let (span, entry) = (entry.span(), entry.into_inner());
            rules.add_certificate(entry, &mut names).map_err(|message| invalid(span, message))?;
        }
        let mut names = BTreeSet::new();
        for entry in file.group {
            let (span, entry) = (entry.span(), entry.into_inner());
            rules.add_group(entry, &mut names).map_err(|message| invalid(span, message))?;
        }
        if let Some(proxy) = file.proxy {
            let (span, proxy) = (proxy.span(), proxy.into_inner());
            rules.set_proxy(proxy).map_err(|message| invalid(span, message))?;
        }
        if let Some(oidc) = file.oidc {
            let (span, oidc) = (oidc.span(), oidc.into_inner());
            rules.set_oidc(oidc).map_err(|message| invalid(span, message))?;
        }
        Ok(rules)
    }

    fn add_token(&mut self, entry: EntryText, names: &mut BTreeSet<String>) -> Result<(), String> {
        refuse_keys(&[("subject", entry.subject.is_some()), ("san", entry.san.is_some())], "token")?;
        // The text is not repeated: it may be the token itself.
        let digest = entry.sha256.as_deref().and_then(TokenDigest::parse);
        let digest = digest.ok_or(
            "sha256 must have the 64 hexadecimal digits of the SHA-256 of a token: `bucksaw token add` writes them",
        )?;
        let principal = principal(entry, names)?;
        if self.by_digest(&digest).is_some() {
            return Err("another entry has the same sha256".to_owned());
        }
        self.tokens.entry(digest.bucket()).or_default().push((digest, Arc::new(principal)));
        Ok(())
    }

    fn add_certificate(&mut self, entry: EntryText, names: &mut BTreeSet<String>) -> Result<(), String> {
        refuse_keys(&[("sha256", entry.sha256.is_some()), ("fluentd", entry.fluentd)], "client_certificate")?;
        let name = match (&entry.subject, &entry.san) {
            (Some(subject), None) => subject.clone(),
            // DNS names have no case.
            (None, Some(san)) if san.starts_with("dns:") => san.to_ascii_lowercase(),
            (None, Some(san)) if san.starts_with("uri:") => san.clone(),
            (None, Some(_)) => return Err("`san` begins with dns: or uri:".to_owned()),
            _ => return Err("a client certificate has either `subject` or `san`".to_owned()),
        };
        if name.is_empty() || name.len() > 1_024 {
            return Err("`subject` or `san` must have 1 to 1024 bytes".to_owned());
        }
        let principal = principal(entry, names)?;
        match self.certificates.insert(name, Arc::new(principal)) {
            Some(_) => Err("another entry has the same `subject` or `san`".to_owned()),
            None => Ok(()),
        }
    }

    fn add_group(&mut self, entry: EntryText, names: &mut BTreeSet<String>) -> Result<(), String> {
        let others = [
            ("sha256", entry.sha256.is_some()),
            ("subject", entry.subject.is_some()),
            ("san", entry.san.is_some()),
            ("expires", entry.expires.is_some()),
            ("fluentd", entry.fluentd),
        ];
        refuse_keys(&others, "group")?;
        let rights = Arc::new(principal(entry, names)?);
        self.groups.push(GroupRules { rights });
        Ok(())
    }

    fn set_proxy(&mut self, proxy: ProxyText) -> Result<(), String> {
        let ProxyText { from, user_header, groups_header } = proxy;
        let address = |text: &String| {
            let address = text.parse::<IpAddr>().map(|address| address.to_canonical());
            address.map_err(|_| format!("from: `{text}` is no address, such as 10.0.0.5"))
        };
        let from = from.iter().map(address).collect::<Result<Vec<_>, _>>()?;
        if from.is_empty() {
            return Err("from must name the addresses of the proxy".to_owned());
        }
        for header in std::iter::once(&user_header).chain(&groups_header) {
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            if header.is_empty() || !header.bytes().all(is_name) {
                return Err(format!("`{header}` is no name of a header"));
            }
        }
        if self.groups.is_empty() {
            return Err("users of a proxy have the rights of a [[group]], and there is none".to_owned());
        }
        self.proxy = Some(ProxyRules { from, user_header, groups_header });
        Ok(())
    }

    fn set_oidc(&mut self, oidc: OidcText) -> Result<(), String> {
        for (key, url) in [("issuer", &oidc.issuer), ("redirect_url", &oidc.redirect_url)] {
            if !is_protected_url(url) {
                return Err(format!("{key} must be a URL with https://; http:// is for this machine only"));
            }
        }
        if oidc.client_id.is_empty() {
            return Err("client_id is empty".to_owned());
        }
        if self.groups.is_empty() {
            return Err("users of an identity provider have the rights of a [[group]], and there is none".to_owned());
        }
        let mut request_scopes =
            oidc.scopes.unwrap_or_else(|| ["openid", "profile", "email"].map(str::to_owned).to_vec());
        if !request_scopes.iter().any(|scope| scope == "openid") {
            request_scopes.insert(0, "openid".to_owned());
        }
        self.oidc = Some(Arc::new(OidcSettings {
            issuer: oidc.issuer,
            client_id: oidc.client_id,
            client_secret_file: oidc.client_secret_file,
            ca_file: oidc.ca_file,
            redirect_url: oidc.redirect_url,
            name_claim: oidc.name_claim.unwrap_or_else(|| "email".to_owned()),
            groups_claim: oidc.groups_claim.unwrap_or_else(|| "groups".to_owned()),
            request_scopes,
        }));
        Ok(())
    }
}

/// Whether a URL is encrypted, or stays on this machine.
fn is_protected_url(url: &str) -> bool {
    let host = |rest: &str| rest.split(['/', ':']).next().unwrap_or_default().to_owned();
    url.len() > "https://".len()
        && !url.contains(['#', '@', ' '])
        && (url.starts_with("https://")
            || url
                .strip_prefix("http://")
                .is_some_and(|rest| ["127.0.0.1", "localhost"].contains(&host(rest).as_str())))
}

fn refuse_keys(keys: &[(&str, bool)], kind: &str) -> Result<(), String> {
    match keys.iter().find(|(_, is_present)| *is_present) {
        Some((key, _)) => Err(format!("an entry [[{kind}]] has no key `{key}`")),
        None => Ok(()),
    }
}

/// What all kinds of entries have.
fn principal(entry: EntryText, names: &mut BTreeSet<String>) -> Result<Principal, String> {
    let name = entry.name;
    let is_part = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'`' | b'\\');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_part) {
        return Err(format!(
            "name must have 1 to {NAME_BYTES_MAX} letters, digits and signs, without spaces and quotes"
        ));
    }
    if !names.insert(name.clone()) {
        return Err(format!("another entry has the name {name}"));
    }
    let scopes: crate::AccessScopes =
        entry.scopes.iter().map(|text| text.parse::<AccessScope>()).collect::<Result<_, _>>()?;
    if scopes.is_empty() {
        return Err("scopes must have at least one of ingest, read and admin".to_owned());
    }
    let empty = entry.labels.iter().find(|(_, value)| value.is_empty());
    if let Some((label, _)) = empty {
        return Err(format!("labels: `{label}` has no value"));
    }
    let labels = Labels::new(entry.labels).map_err(|error| format!("labels: {error}"))?;
    if !entry.tenants.is_empty() && labels.get(TENANT_LABEL).is_some() {
        return Err(format!("an entry has either `tenants` or a label `{TENANT_LABEL}`"));
    }
    check_tenants(&entry.tenants)?;
    if entry.bytes_per_second == Some(0) || entry.queries_max == Some(0) {
        return Err("a limit of 0 would allow nothing: leave the scope out".to_owned());
    }
    Ok(Principal {
        name,
        scopes,
        labels,
        tenants: entry.tenants,
        expires: entry.expires.map(expiry).transpose()?,
        limits: ClientLimits { bytes_per_second: entry.bytes_per_second, queries_max: entry.queries_max },
        may_use_fluentd: entry.fluentd,
    })
}

fn check_tenants(tenants: &[String]) -> Result<(), String> {
    if tenants.len() > TENANTS_MAX {
        return Err(format!("tenants: more than {TENANTS_MAX}"));
    }
    let mut seen = BTreeSet::new();
    for tenant in tenants {
        if tenant.is_empty() || Labels::new([(TENANT_LABEL, tenant.as_str())]).is_err() {
            return Err("tenants: a name is empty or too long for the value of a label".to_owned());
        }
        if !seen.insert(tenant) {
            return Err(format!("tenants: `{tenant}` is given twice"));
        }
    }
    Ok(())
}

fn expiry(time: Datetime) -> Result<Millis, String> {
    if time.offset.is_none() {
        return Err("expires must have a date, a time and a zone, such as 2027-01-01T00:00:00Z".to_owned());
    }
    let at = event_time_text(time.to_string().as_bytes()).map(|(at, _)| at);
    at.ok_or_else(|| "expires is not a time after 1970".to_owned())
}
