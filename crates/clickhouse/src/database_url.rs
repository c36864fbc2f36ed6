//! The URL of a database: `clickhouse://[USER@]HOST[:PORT]/DATABASE[?OPTION=VALUE[&…]]`, or `clickhouses://…` for TLS.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bucksaw_record::time::parse_duration;
use percent_encoding::percent_decode_str;

/// The ports of ClickHouse's HTTP interface, plain and with TLS.
const DEFAULT_PORT: u16 = 8123;
const DEFAULT_TLS_PORT: u16 = 8443;

/// Maximum bytes of a name.
const NAME_BYTES_MAX: usize = 64;

/// Maximum of the option `connections`.
const CONNECTIONS_MAX: usize = 64;

/// A server, a database and a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseUrl {
    /// Whether connections use TLS.
    pub is_tls: bool,
    /// The user; `default` unless given.
    pub user: String,
    /// A name or an address; an address of IPv6 without brackets.
    pub host: String,
    /// The port of the HTTP interface.
    pub port: u16,
    /// The database, which is created if it is missing.
    pub database: String,
    /// Option `table`: the table, which is created if it is missing; `records` unless given.
    pub table: String,
    /// Option `engine`: the engine of a new table, with its arguments; `ReplacingMergeTree` unless given: its merges drop
    /// rows with equal ids, as of messages of Kafka that are read again.
    pub engine: String,
    /// Option `connections`: concurrent inserts.
    pub connections: usize,
    /// Option `retention`: the age at which ClickHouse removes records, if it is not the node's.
    pub retention: Option<Duration>,
}

/// Why the URL of a database is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidDatabaseUrl {
    /// It has not this form.
    #[error(
        "expected clickhouse://[USER@]HOST[:PORT]/DATABASE, such as clickhouse://127.0.0.1:8123/logs, or clickhouses:// for TLS"
    )]
    Syntax,
    /// It contains a password, which other users of the machine could read.
    #[error(
        "give the password in the variable BUCKSAW_DATABASE_PASSWORD or by --database-password-file, not in the URL"
    )]
    Password,
    /// A database or table has a name that is not accepted.
    #[error(
        "`{0}` is no name of a database or table: letters, digits and `_`, at most {NAME_BYTES_MAX}, no digit first"
    )]
    Name(String),
    /// The engine is none of the MergeTree family.
    #[error(
        "`{0}` is no engine of the MergeTree family, such as ReplicatedReplacingMergeTree('/clickhouse/{{shard}}/records', '{{replica}}')"
    )]
    Engine(String),
    /// An option has an invalid value.
    #[error("the option {0} has an invalid value: {1}")]
    Value(&'static str, String),
    /// There is no such option.
    #[error("unknown option `{0}`: there are table, engine, connections and retention")]
    Option(String),
}

impl FromStr for DatabaseUrl {
    type Err = InvalidDatabaseUrl;

    fn from_str(text: &str) -> Result<Self, InvalidDatabaseUrl> {
        let tls = text.strip_prefix("clickhouses://");
        let rest = tls.or_else(|| text.strip_prefix("clickhouse://")).ok_or(InvalidDatabaseUrl::Syntax)?;
        let is_tls = tls.is_some();
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = place.split_once('/').ok_or(InvalidDatabaseUrl::Syntax)?;
        let (user, server) = authority.rsplit_once('@').unwrap_or(("default", authority));
        if user.contains(':') {
            return Err(InvalidDatabaseUrl::Password);
        }
        let user = decode(user).filter(|user| !user.is_empty() && !user.contains(char::is_control));
        let default_port = if is_tls { DEFAULT_TLS_PORT } else { DEFAULT_PORT };
        let (host, port) = split_server(server, default_port).ok_or(InvalidDatabaseUrl::Syntax)?;
        let mut url = Self {
            is_tls,
            user: user.ok_or(InvalidDatabaseUrl::Syntax)?,
            host,
            port,
            database: checked_name(database.to_owned())?,
            table: "records".to_owned(),
            engine: "ReplacingMergeTree".to_owned(),
            connections: 4,
            retention: None,
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            let value = decode(value).ok_or(InvalidDatabaseUrl::Syntax)?;
            match name {
                "table" => url.table = checked_name(value)?,
                "engine" if is_engine(&value) => url.engine = value,
                "engine" => return Err(InvalidDatabaseUrl::Engine(value)),
                "connections" => {
                    let count = value.parse().ok().filter(|count| (1..=CONNECTIONS_MAX).contains(count));
                    url.connections = count.ok_or(InvalidDatabaseUrl::Value("connections", value))?;
                }
                "retention" => {
                    let age = parse_duration(&value).ok().filter(|age| age.as_secs() > 0);
                    url.retention = Some(age.ok_or(InvalidDatabaseUrl::Value("retention", value))?);
                }
                _ => return Err(InvalidDatabaseUrl::Option(name.to_owned())),
            }
        }
        Ok(url)
    }
}

/// Without user, options and password, for messages.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "clickhouses" } else { "clickhouse" };
        write!(f, "{scheme}://{}/{}", self.authority(), self.database)?;
        if self.table == "records" { Ok(()) } else { write!(f, "?table={}", self.table) }
    }
}

impl DatabaseUrl {
    /// Host and port.
    pub fn authority(&self) -> String {
        let (host, port) = (&self.host, self.port);
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

fn decode(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned)
}

fn split_server(server: &str, default_port: u16) -> Option<(String, u16)> {
    let (host, port) = match server.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, port.strip_prefix(':'))
        }
        None => server.split_once(':').map_or((server, None), |(host, port)| (host, Some(port))),
    };
    let is_host = |char: char| char.is_ascii_alphanumeric() || "-._:".contains(char);
    let port = port.map_or(Some(default_port), |port| port.parse().ok())?;
    (!host.is_empty() && host.chars().all(is_host)).then(|| (host.to_owned(), port))
}

fn checked_name(name: String) -> Result<String, InvalidDatabaseUrl> {
    let is_first = |char: char| char.is_ascii_alphabetic() || char == '_';
    let is_valid = name.len() <= NAME_BYTES_MAX
        && name.starts_with(is_first)
        && name.chars().all(|char| is_first(char) || char.is_ascii_digit());
    if is_valid { Ok(name) } else { Err(InvalidDatabaseUrl::Name(name)) }
}

/// Whether a text is an engine with arguments that end where the text does. It becomes a part of a statement, and comes from
/// who configures the node.
fn is_engine(text: &str) -> bool {
    let name = text.split('(').next().unwrap_or_default();
    let arguments = text.strip_prefix(name).unwrap_or_default();
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "'/{}_-., :".contains(char);
    let inner = arguments.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    name.ends_with("MergeTree")
        && name.chars().all(|char| char.is_ascii_alphabetic())
        && (arguments.is_empty()
            || inner.is_some_and(|inner| inner.chars().all(is_plain) && inner.matches('\'').count() % 2 == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<DatabaseUrl, InvalidDatabaseUrl> {
        text.parse()
    }

    #[test]
    fn parts_and_options_are_parsed() {
        let url = parse("clickhouse://logs%40x@ch.example:9123/app?table=t_1&connections=8").unwrap();
        assert_eq!((url.user.as_str(), url.host.as_str(), url.port), ("logs@x", "ch.example", 9123));
        assert_eq!((url.database.as_str(), url.table.as_str(), url.connections), ("app", "t_1", 8));
        assert_eq!(url.to_string(), "clickhouse://ch.example:9123/app?table=t_1");
        let secure = parse("clickhouses://h/d").unwrap();
        assert_eq!((secure.is_tls, secure.port, secure.to_string()), (true, 8443, "clickhouses://h:8443/d".to_owned()));
        let plain = parse("clickhouse://[::1]/logs").unwrap();
        assert_eq!((plain.user.as_str(), plain.authority().as_str()), ("default", "[::1]:8123"));
        let engine = "ReplicatedMergeTree('/clickhouse/{shard}/records', '{replica}')";
        let replicated = parse(&format!("clickhouse://h/d?engine={}", engine.replace(' ', "%20"))).unwrap();
        assert_eq!(replicated.engine, engine);
    }

    #[test]
    fn invalid_urls_are_refused() {
        for text in ["", "http://h/d", "clickhouse://h", "clickhouse:///d", "clickhouse://h:x/d", "clickhouse://a b/d"]
        {
            assert_eq!(parse(text), Err(InvalidDatabaseUrl::Syntax), "{text}");
        }
        assert_eq!(parse("clickhouse://u:secret@h/d"), Err(InvalidDatabaseUrl::Password));
        for name in ["", "a`b", "1a", "a.b", "a b", "d/e"] {
            assert!(matches!(parse(&format!("clickhouse://h/{name}")), Err(InvalidDatabaseUrl::Name(_))), "{name}");
        }
        for engine in ["Memory", "MergeTree ORDER BY x", "MergeTree('a)", "MergeTree(1);DROP", "MergeTree(a`b)"] {
            let url = format!("clickhouse://h/d?engine={engine}");
            assert!(matches!(parse(&url), Err(InvalidDatabaseUrl::Engine(_))), "{engine}");
        }
        assert!(matches!(parse("clickhouse://h/d?x=1"), Err(InvalidDatabaseUrl::Option(_))));
        for option in ["connections=0", "retention=0s", "retention=soon"] {
            let url = format!("clickhouse://h/d?{option}");
            assert!(matches!(parse(&url), Err(InvalidDatabaseUrl::Value(..))), "{option}");
        }
        assert_eq!(parse("clickhouse://h/d?retention=2d").unwrap().retention, Some(Duration::from_secs(172_800)));
    }
}
