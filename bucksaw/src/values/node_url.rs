//! The address of a node's HTTP API.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

use crate::failure::UsageError;

/// `[http[s]://]HOST[:PORT][/PREFIX]`, or `:PORT` for this machine. The default port is 7650, with a scheme that of the
/// scheme, for a proxy. A prefix is for proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeUrl {
    scheme: UrlScheme,
    authority: String,
    /// Without a slash at its end.
    prefix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UrlScheme {
    /// TLS if the user names certificates.
    Unstated,
    Http,
    Https,
}

/// The port of a node's HTTP API.
const NODE_PORT: u16 = 7_650;

const SYNTAX: &str = "expected the address of a node such as http://127.0.0.1:7650, localhost:7650 or :7650";

impl NodeUrl {
    /// `HOST:PORT`, to connect to and for the `Host` header.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// The host, as which the node must identify itself.
    pub(crate) fn host(&self) -> &str {
        self.authority.rsplit_once(':').map_or(self.authority.as_str(), |(host, _)| host)
    }

    /// Whether the node is called over TLS.
    pub(crate) fn is_https(&self) -> bool {
        self.scheme == UrlScheme::Https
    }

    /// The same address, over TLS if it states no scheme and the user names certificates.
    ///
    /// # Errors
    /// The user names certificates for an address without TLS.
    pub(crate) fn with_certificates(self, has_certificates: bool) -> Result<Self, UsageError> {
        match self.scheme {
            UrlScheme::Unstated if has_certificates => Ok(Self { scheme: UrlScheme::Https, ..self }),
            UrlScheme::Http if has_certificates => Err(UsageError(format!(
                "{self} is not encrypted, and --ca, --cert and --key are for TLS: give https://{}{}",
                self.authority, self.prefix
            ))),
            _ => Ok(self),
        }
    }

    /// The target of a request for this path with its query.
    pub(crate) fn target(&self, path_and_query: &str) -> String {
        format!("{}{path_and_query}", self.prefix)
    }
}

impl FromStr for NodeUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let completed = match (text.contains("://"), text.starts_with(':')) {
            (true, _) => text.to_owned(),
            (false, true) => format!("http://127.0.0.1{text}"),
            (false, false) => format!("http://{text}"),
        };
        let uri: Uri = completed.parse().map_err(|_| SYNTAX)?;
        let (scheme, default_port) = match uri.scheme_str() {
            Some("http") if completed != text => (UrlScheme::Unstated, NODE_PORT),
            Some("http") => (UrlScheme::Http, 80),
            Some("https") => (UrlScheme::Https, 443),
            _ => return Err(SYNTAX),
        };
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or(SYNTAX)?;
        let host = authority.host();
        // `Uri` reads an invalid port as none.
        let port = match authority.as_str().get(host.len()..) {
            Some("") => default_port,
            Some(port) => port.strip_prefix(':').and_then(|port| port.parse::<u16>().ok()).ok_or(SYNTAX)?,
            None => return Err(SYNTAX),
        };
        if host.is_empty() || uri.query().is_some() || text.contains('#') {
            return Err(SYNTAX);
        }
        Ok(Self { scheme, authority: format!("{host}:{port}"), prefix: uri.path().trim_end_matches('/').to_owned() })
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https() { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_parse() {
        let check = |text: &str, want: Result<&str, &str>| {
            assert_eq!(text.parse::<NodeUrl>().map(|url| url.to_string()), want.map(str::to_owned), "{text}");
        };
        check("http://127.0.0.1:7650", Ok("http://127.0.0.1:7650"));
        check("http://logs.example.com/", Ok("http://logs.example.com:80"));
        check("http://[::1]:7650/logs/", Ok("http://[::1]:7650/logs"));
        check("https://a", Ok("https://a:443"));
        check("https://[::1]:7650/", Ok("https://[::1]:7650"));
        check("localhost:7650", Ok("http://localhost:7650"));
        check("localhost", Ok("http://localhost:7650"));
        check("127.0.0.1", Ok("http://127.0.0.1:7650"));
        check("10.0.0.1:80/logs", Ok("http://10.0.0.1:80/logs"));
        check(":7660", Ok("http://127.0.0.1:7660"));
        check("[::1]", Ok("http://[::1]:7650"));
        for text in [
            "",
            ":",
            ":x",
            "::1",
            "a:b",
            "ftp://a",
            "http://",
            "http://a:b",
            "http://a:99999",
            "http://u:p@a",
            "http://a/?q",
            "http://a/#f",
            "http://a b",
        ] {
            check(text, Err(SYNTAX));
        }
        let url: NodeUrl = "http://a/b".parse().unwrap();
        assert_eq!((url.authority(), url.host(), url.target("/x?y").as_str()), ("a:80", "a", "/b/x?y"));
        assert_eq!("https://[::1]:1".parse::<NodeUrl>().unwrap().host(), "[::1]");
    }

    #[test]
    fn certificates_imply_tls_and_exclude_plain_http() {
        let check = |text: &str, want: Result<&str, &str>| {
            let url = text.parse::<NodeUrl>().unwrap().with_certificates(true);
            let got = url.map(|url| url.to_string()).map_err(|error| error.to_string());
            match want {
                Ok(want) => assert_eq!(got.as_deref(), Ok(want)),
                Err(part) => assert!(got.unwrap_err().ends_with(part)),
            }
        };
        check("localhost", Ok("https://localhost:7650"));
        check(":7650", Ok("https://127.0.0.1:7650"));
        check("https://a", Ok("https://a:443"));
        check("http://a:1/b", Err("give https://a:1/b"));
        let plain = "a".parse::<NodeUrl>().unwrap().with_certificates(false).unwrap();
        assert!(!plain.is_https() && plain.to_string() == "http://a:7650");
    }
}
