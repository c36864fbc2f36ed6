//! The address of a node's HTTP API.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

/// `http://HOST[:PORT][/PREFIX]`; the port is 80 when left out, a prefix is for proxies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeUrl {
    /// `HOST:PORT`, to connect to.
    authority: String,
    /// Without a slash at its end.
    prefix: String,
}

/// Why a text is not the address of a node.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidUrl {
    /// It is not written as one.
    #[error("expected the address of a node such as http://127.0.0.1:7650")]
    Form,
    /// It wants TLS, which this client does not speak.
    #[error("https is not spoken here: use http://, through a TLS proxy or tunnel if need be")]
    Https,
}

impl NodeUrl {
    /// `HOST:PORT`, to connect to and for the `Host` header.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// What a request line says for this path with its query.
    pub(crate) fn target(&self, path_and_query: &str) -> String {
        format!("{}{path_and_query}", self.prefix)
    }
}

impl FromStr for NodeUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        let uri: Uri = text.parse().map_err(|_| InvalidUrl::Form)?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(InvalidUrl::Https),
            _ => return Err(InvalidUrl::Form),
        }
        let authority =
            uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or(InvalidUrl::Form)?;
        let host = authority.host();
        // A port that is not one would otherwise be taken for none.
        let port = match authority.as_str().get(host.len()..) {
            Some("") => 80,
            Some(port) => port.strip_prefix(':').and_then(|port| port.parse::<u16>().ok()).ok_or(InvalidUrl::Form)?,
            None => return Err(InvalidUrl::Form),
        };
        if host.is_empty() || uri.query().is_some() || text.contains('#') {
            return Err(InvalidUrl::Form);
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
        let check = |text: &str, want: Result<&str, InvalidUrl>| {
            assert_eq!(text.parse::<NodeUrl>().map(|url| url.to_string()), want.map(str::to_owned), "{text}");
        };
        check("http://127.0.0.1:7650", Ok("http://127.0.0.1:7650"));
        check("http://logs.example.com/", Ok("http://logs.example.com:80"));
        check("http://[::1]:7650/logs/", Ok("http://[::1]:7650/logs"));
        check("https://a", Err(InvalidUrl::Https));
        for text in [
            "",
            "127.0.0.1:7650",
            "localhost",
            "ftp://a",
            "http://",
            "http://a:b",
            "http://a:99999",
            "http://u:p@a",
            "http://a/?q",
            "http://a/#f",
            "http://a b",
        ] {
            check(text, Err(InvalidUrl::Form));
        }
        let url: NodeUrl = "http://a/b".parse().unwrap();
        assert_eq!((url.authority(), url.target("/x?y").as_str()), ("a:80", "/b/x?y"));
    }
}
