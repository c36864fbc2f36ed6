use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{Env, Reloads, sim};
use prometheus_client::registry::Registry;
use proptest::prelude::*;

use super::*;

const PATH: &str = "/auth.toml";

/// A node with an auth file, of which a test moves the clock.
struct AuthFixture {
    fs: Arc<sim::Fs>,
    clock: Arc<sim::Clock>,
    authenticator: Authenticator,
    registry: Registry,
    reloads: Reloads,
}

impl AuthFixture {
    fn new(file: &str) -> Self {
        let (fs, clock) = (Arc::new(sim::Fs::new()), Arc::new(sim::Clock::at_unix_ms(1_795_216_200_000)));
        let env = Env { fs: fs.clone(), clock: clock.clone(), entropy: Env::real().entropy };
        write(&fs, file);
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        let authenticator = Authenticator::open(Path::new(PATH), env, metrics).unwrap();
        Self { fs, clock, authenticator, registry, reloads: Reloads::default() }
    }

    fn with_token(&self, token: &str) -> Result<Arc<Grant>, AuthRefusal> {
        let token = SecretText::new(token);
        self.authenticator.authenticate("http", peer(), &Presented { token: Some(&token), ..Presented::default() })
    }

    fn reason(&self, token: &str) -> AuthRefusalReason {
        self.with_token(token).unwrap_err().reason
    }

    fn reload(&self, file: &str) {
        self.clock.advance(Duration::from_secs(1));
        write(&self.fs, file);
        self.authenticator.reload(&self.reloads);
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

fn write(fs: &sim::Fs, text: &str) {
    bucksaw_env::replace(fs, Path::new(PATH), &[text.as_bytes()]).unwrap();
}

fn peer() -> IpAddr {
    "10.0.0.9".parse().unwrap()
}

/// An entry for a token.
fn entry(name: &str, token: &str, rest: &str) -> String {
    format!("[[token]]\nname = \"{name}\"\nsha256 = \"{}\"\nscopes = [\"ingest\"]\n{rest}\n", TokenDigest::of(token))
}

#[test]
fn a_file_gives_the_rights_that_it_states() {
    let file = r#"
# Comments are allowed.
[[token]]
name = "web-agents"
sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
scopes = ["ingest", "read"]
labels = { tenant = "a" }
expires = 2027-01-01T00:00:00+01:00
bytes_per_second = 10_000_000
queries_max = 4

[[client_certificate]]
subject = "CN=agent-7"
name = "agent-7"
scopes = ["ingest"]
tenants = ["a", "b"]

[[client_certificate]]
san = "dns:agent-8.example"
name = "agent-8"
scopes = ["ingest"]

[proxy]
from = ["10.0.0.5", "::1"]
user_header = "X-Forwarded-User"
groups_header = "X-Forwarded-Groups"

[[group]]
name = "sre"
scopes = ["read", "admin"]

[[group]]
name = "dev"
scopes = ["read"]
labels = { tenant = "b" }
"#;
    let node = AuthFixture::new(file);
    assert_eq!(node.authenticator.status().credentials, 5);
    let grant = node.with_token("abc").unwrap();
    let principal = grant.principal();
    assert_eq!((principal.name.as_str(), principal.scopes.to_string().as_str()), ("web-agents", "ingest,read"));
    assert_eq!(principal.labels.to_string(), "tenant=a");
    assert_eq!(principal.limits, ClientLimits { bytes_per_second: Some(10_000_000), queries_max: Some(4) });
    assert_eq!(principal.expires.map(|at| at.0), Some(1_798_758_000_000));

    let named = |subject: &str, sans: &[&str]| {
        let sans: Vec<String> = sans.iter().map(|san| (*san).to_owned()).collect();
        let certificate = Some(CertificateNames { subject, sans: &sans });
        let presented = Presented { certificate, ..Presented::default() };
        node.authenticator.authenticate("http", peer(), &presented).map(|grant| grant.principal().name.clone())
    };
    assert_eq!(named("CN=agent-7", &[]).unwrap(), "agent-7");
    assert_eq!(named("CN=other", &["dns:x", "dns:agent-8.example"]).unwrap(), "agent-8");
    assert_eq!(named("CN=agent-70", &["agent-8.example"]).unwrap_err().reason, AuthRefusalReason::Unknown);

    let proxied = |from: &str, user: &'static str, groups: &'static str| {
        let header = |name: &str| match name {
            "X-Forwarded-User" => Some(user),
            "X-Forwarded-Groups" => Some(groups),
            _ => None,
        };
        let user = node.authenticator.proxied_user(from.parse().unwrap(), header)?;
        let presented = Presented { user: Some(&user), ..Presented::default() };
        let grant = node.authenticator.authenticate("http", peer(), &presented).ok()?;
        let principal = grant.principal();
        Some(format!("{} {} {}", principal.name, principal.scopes, principal.labels))
    };
    assert_eq!(proxied("10.0.0.5", "ann", "x, sre,dev").as_deref(), Some("ann read,admin "));
    assert_eq!(proxied("::ffff:10.0.0.5", "bob", "dev").as_deref(), Some("bob read tenant=b"));
    assert_eq!(proxied("10.0.0.6", "ann", "sre"), None, "from another address");
    assert_eq!(proxied("::1", "eve", "ops"), None, "of no group");
    assert_eq!(proxied("::1", "", "sre"), None);
}

#[test]
fn a_wrong_file_is_refused_with_the_line() {
    let digest = TokenDigest::of("abc");
    let token = |rest: &str| format!("\n[[token]]\nname = \"a\"\nsha256 = \"{digest}\"\nscopes = [\"read\"]\n{rest}\n");
    let check = |text: &str, want: &str| {
        let error = AuthRules::parse(text).unwrap_err().to_string();
        assert!(error.contains(want), "{want:?} is not in {error:?}");
        assert!(!error.contains('\n') && !error.contains("bks_"), "{error}");
    };
    check("x = 1\n", "line 1: unknown field `x`");
    check("[[token]\n", "line 1: ");
    check(&token("label = { tenant = \"a\" }"), "line 6: unknown field `label`");
    check(&token("labels = { \"\" = \"a\" }"), "labels: label name ``");
    check(&token("labels = { tenant = \"\" }"), "labels: `tenant` has no value");
    check(&token("labels = { tenant = \"a\" }\ntenants = [\"b\"]"), "either `tenants` or a label");
    check(&token("tenants = [\"\"]"), "tenants: a name is empty");
    check(&token("tenants = [\"a\", \"a\"]"), "given twice");
    check(&token("expires = 2027-01-01"), "expires must have a date, a time and a zone");
    check(&token("expires = 2027-01-01T00:00:00"), "expires must have a date, a time and a zone");
    check(&token("queries_max = 0"), "a limit of 0");
    check(&token("bytes_per_second = -1"), "line 6: ");
    check(&token("subject = \"CN=a\""), "an entry [[token]] has no key `subject`");
    check(&token(&token("")), "another entry has the name a");
    check(&token(&token("").replace("\"a\"", "\"b\"")), "another entry has the same sha256");
    check("[[token]]\nname = \"a\"\nscopes = [\"read\"]\n", "sha256 must have");
    check("[[token]]\nname = \"a\"\nsha256 = \"bks_abc\"\nscopes = [\"read\"]\n", "sha256 must have");
    check("[[token]]\nname = \"a\"\n", "missing field `scopes`");
    check(&token("").replace("read", "write"), "scope `write` is not known");
    check(&token("").replace("\"read\"", ""), "at least one");
    check(&token("").replace("\"a\"", "\"a b\""), "name must have");
    check("[[client_certificate]]\nname = \"a\"\nscopes = [\"read\"]\n", "either `subject` or `san`");
    check("[[group]]\nname = \"a\"\nscopes = [\"read\"]\nexpires = 2027-01-01T00:00:00Z\n", "has no key `expires`");
    check("[proxy]\nfrom = [\"10.0.0.0/8\"]\nuser_header = \"X\"\n", "is no address");
    check("[proxy]\nfrom = []\nuser_header = \"X\"\n", "must name the addresses");
    check("[proxy]\nfrom = [\"::1\"]\nuser_header = \"X:\"\n", "is no name of a header");
    check("[proxy]\nfrom = [\"::1\"]\nuser_header = \"X\"\n", "there is none");
    assert!(matches!(AuthRules::parse(&"#".repeat(FILE_BYTES_MAX as usize + 1)), Err(AuthFileError::TooLong)));
}

#[test]
fn unknown_missing_and_expired_credentials_are_refused_and_counted() {
    let node = AuthFixture::new(&entry("a", "abc", "expires = 2026-11-20T23:10:01Z"));
    let nothing = node.authenticator.authenticate("http", peer(), &Presented::default());
    assert_eq!(nothing.unwrap_err(), AuthRefusal { reason: AuthRefusalReason::Missing, delay: Duration::ZERO });
    assert_eq!(node.reason("abd"), AuthRefusalReason::Unknown);
    let grant = node.with_token("abc").unwrap();
    assert!(grant.is_valid());
    node.clock.advance(Duration::from_secs(1));
    assert!(!grant.is_valid());
    assert_eq!(node.reason("abc"), AuthRefusalReason::Expired);
    let metrics = node.metrics();
    for reason in ["missing", "unknown", "expired"] {
        let series = format!("auth_refused_total{{listener=\"http\",reason=\"{reason}\"}} 1");
        assert!(metrics.contains(&series), "{metrics}");
    }
}

#[test]
fn guessing_is_slowed_and_valid_credentials_are_not() {
    let node = AuthFixture::new(&entry("a", "abc", ""));
    let delays: Vec<Duration> = (0..20).map(|at| node.with_token(&format!("guess {at}")).unwrap_err().delay).collect();
    assert!(delays[0] == Duration::ZERO && delays[19] >= Duration::from_secs(3), "{delays:?}");
    assert!(node.with_token("abc").is_ok());
}

#[test]
fn a_changed_file_changes_the_rights_of_open_connections() {
    let node = AuthFixture::new(&entry("a", "abc", ""));
    let grant = node.with_token("abc").unwrap();
    node.reload(&[entry("a", "abc", ""), entry("b", "xyz", "")].concat());
    assert!(grant.is_valid() && node.with_token("xyz").is_ok());
    node.reload(&entry("a", "abc", "labels = { tenant = \"x\" }"));
    assert!(!grant.is_valid(), "its labels changed");
    let grant = node.with_token("abc").unwrap();
    assert_eq!(node.reason("xyz"), AuthRefusalReason::Unknown);
    node.reload("");
    assert!(!grant.is_valid(), "it was revoked");
    assert!(node.metrics().contains("auth_reloads_total 3") && node.metrics().contains("auth_credentials 0"));
}

#[test]
fn a_broken_file_keeps_the_last_valid_version() {
    let node = AuthFixture::new(&entry("a", "abc", ""));
    let grant = node.with_token("abc").unwrap();
    let loaded_at = node.authenticator.status().loaded_at;
    node.reload("[[token]]\nname = 1\n");
    assert!(grant.is_valid() && node.with_token("abc").is_ok());
    let status = node.authenticator.status();
    let failure = |node: &AuthFixture| node.reloads.failed().first().map(|failed| failed.failure.clone());
    assert!(failure(&node).is_some_and(|failure| failure.starts_with("line 2: ")), "{:?}", node.reloads);
    assert_eq!((status.credentials, status.loaded_at), (1, loaded_at));
    assert!(node.metrics().contains("auth_file_invalid 1"));
    bucksaw_env::Fs::remove(&*node.fs, Path::new(PATH)).unwrap();
    node.authenticator.reload(&node.reloads);
    assert_eq!(failure(&node).as_deref(), Some("there is no such file"));
    assert!(node.with_token("abc").is_ok());
    node.reload(&entry("b", "xyz", ""));
    assert_eq!((failure(&node), node.with_token("abc").is_err()), (None, true));
    assert!(node.metrics().contains("auth_file_invalid 0"));
}

#[test]
fn bytes_and_queries_are_limited_for_all_connections_of_a_principal() {
    let node = AuthFixture::new(&entry("a", "abc", "bytes_per_second = 1000\nqueries_max = 1"));
    let (one, other) = (node.with_token("abc").unwrap(), node.with_token("abc").unwrap());
    one.count_bytes(3_000);
    assert_eq!(other.bytes_delay(), Duration::from_secs(2));
    let query = one.try_query().unwrap();
    assert!(other.try_query().is_none());
    drop(query);
    assert!(other.try_query().is_some());
}

#[test]
fn fluentd_has_the_digest_as_password_if_the_entry_allows_it() {
    let node = AuthFixture::new(&[entry("a", "abc", "fluentd = true"), entry("b", "xyz", "")].concat());
    let authenticate = |name: &str, password: &str| {
        let check = |known: &SecretText| known.expose() == password;
        node.authenticator.authenticate_fluentd("fluent", peer(), name, check).is_ok()
    };
    assert!(authenticate("a", &TokenDigest::of("abc").to_string()));
    assert!(!authenticate("a", "abc") && !authenticate("c", ""));
    assert!(!authenticate("b", &TokenDigest::of("xyz").to_string()));
}

#[test]
fn no_debug_form_shows_a_secret() {
    let node = AuthFixture::new(&entry("a", "abc", ""));
    let grant = node.with_token("abc").unwrap();
    let shown = format!("{:?} {:?} {:?}", node.authenticator, grant, TokenDigest::of("abc"));
    assert!(!shown.contains(&TokenDigest::of("abc").to_string()) && !shown.contains("ba78"), "{shown}");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(\\[\\[?(token|group|proxy)\\]?\\]\n|[a-z_0-9]{1,9} = [\"0-9a-f\\[\\]{}T:-]{0,20}\n|\\PC{0,9}\n){0,12}") {
        let _ = AuthRules::parse(&text);
    }

    #[test]
    fn any_header_is_read_or_refused(scheme in "(Basic|Bearer|ApiKey|Splunk|x)? ?", value in prop::collection::vec(any::<u8>(), 0..40)) {
        let bytes = [scheme.as_bytes(), &value].concat();
        let _ = (token_of_authorization(&bytes), token_of_cookie(&bytes));
    }
}
