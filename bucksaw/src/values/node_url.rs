//! The address of a node's HTTP API.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

/// `[http://]HOST[:PORT][/PREFIX]`, or `:PORT` for this machine. The default port is 7650, with `http://` 80 for a
/// proxy. A prefix is for proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeUrl {
    authority: String,
    /// Without a slash at its end.
    prefix: String,
}

/// The port of a node's HTTP API.
const NODE_PORT: u16 = 7_650;

const SYNTAX: &str = "expected the address of a node such as http://127.0.0.1:7650, localhost:7650 or :7650";
const HTTPS: &str = "https is not supported: use http://, through a TLS proxy or tunnel if need be";

impl NodeUrl {
    /// `HOST:PORT`, to connect to and for the `Host` header.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
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
        let default_port = if completed == text { 80 } else { NODE_PORT };
        let uri: Uri = completed.parse().map_err(|_| SYNTAX)?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(HTTPS),
            _ => return Err(SYNTAX),
        }
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
        Ok(Self { authority: format!("{host}:{port}"), prefix: uri.path().trim_end_matches('/').to_owned() })
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.prefix)
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
        check("https://a", Err(HTTPS));
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
        assert_eq!((url.authority(), url.target("/x?y").as_str()), ("a:80", "/b/x?y"));
    }
}
