//! The address of an API server.

use std::net::{IpAddr, Ipv6Addr};

use hyper::Uri;

/// Where the API server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiAddress {
    /// Whether the connection is encrypted and the server's certificate is checked.
    pub(crate) is_tls: bool,
    /// A name or an address; an address of IPv6 without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The path in front of `/api`, without a slash at its end.
    pub(crate) prefix: String,
}

/// Why an address of an API server is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidApiAddress {
    /// It is no URL of this form.
    #[error(
        "expected the URL of an API server, such as https://10.0.0.1:6443, or http://127.0.0.1:8001 of `kubectl proxy`"
    )]
    Syntax,
    /// It has no encryption, and leads to another machine.
    #[error("http:// is for this machine only, such as http://127.0.0.1:8001 of `kubectl proxy`: use https://")]
    Plain,
    /// The process is in no pod.
    #[error("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT name no API server")]
    NotInCluster,
}

impl ApiAddress {
    /// Parses `https://HOST[:PORT][/PREFIX]`, or `http://` with a host of this machine.
    ///
    /// ```
    /// # use bucksaw_kubernetes::ApiAddress;
    /// assert!(ApiAddress::parse("http://127.0.0.1:8001").is_ok());
    /// assert!(ApiAddress::parse("http://10.0.0.1:8001").is_err());
    /// ```
    ///
    /// # Errors
    /// [`InvalidApiAddress`].
    pub fn parse(text: &str) -> Result<Self, InvalidApiAddress> {
        let uri: Uri = text.parse().map_err(|_| InvalidApiAddress::Syntax)?;
        let (is_tls, default_port) = match uri.scheme_str() {
            Some("https") => (true, 443),
            Some("http") => (false, 80),
            _ => return Err(InvalidApiAddress::Syntax),
        };
        let authority = uri.authority().ok_or(InvalidApiAddress::Syntax)?.as_str();
        let host = uri.host().filter(|host| !host.is_empty()).ok_or(InvalidApiAddress::Syntax)?;
        // `Uri` reads an invalid port as none.
        let port = match authority.strip_prefix(host) {
            Some("") => default_port,
            Some(port) => {
                let port = port.strip_prefix(':').and_then(|port| port.parse().ok());
                port.ok_or(InvalidApiAddress::Syntax)?
            }
            // User names are not supported.
            None => return Err(InvalidApiAddress::Syntax),
        };
        if uri.query().is_some() || text.contains('#') {
            return Err(InvalidApiAddress::Syntax);
        }
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let address = Self { is_tls, host, port, prefix: uri.path().trim_end_matches('/').to_owned() };
        match is_tls || address.is_loopback() {
            true => Ok(address),
            false => Err(InvalidApiAddress::Plain),
        }
    }

    /// The address that every pod has in the variables `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`.
    ///
    /// # Errors
    /// [`InvalidApiAddress::NotInCluster`] if one of them is unset or invalid.
    pub fn in_cluster(host: Option<&str>, port: Option<&str>) -> Result<Self, InvalidApiAddress> {
        let host = host.filter(|host| !host.is_empty()).ok_or(InvalidApiAddress::NotInCluster)?;
        let port: u16 = port.and_then(|port| port.parse().ok()).ok_or(InvalidApiAddress::NotInCluster)?;
        let address = Self { is_tls: true, host: host.to_owned(), port, prefix: String::new() };
        // Checked as a URL, so that the header `Host` is valid.
        Self::parse(&address.url()).map_err(|_| InvalidApiAddress::NotInCluster)
    }

    /// `HOST:PORT`, as in a URL.
    pub(crate) fn authority(&self) -> String {
        match self.host.parse::<Ipv6Addr>() {
            Ok(_) => format!("[{}]:{}", self.host, self.port),
            Err(_) => format!("{}:{}", self.host, self.port),
        }
    }

    /// The address as a URL.
    pub fn url(&self) -> String {
        format!("{}://{}{}", if self.is_tls { "https" } else { "http" }, self.authority(), self.prefix)
    }

    fn is_loopback(&self) -> bool {
        self.host.parse::<IpAddr>().map_or(self.host == "localhost", |address| address.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        let check = |text: &str, want: &str| {
            let parsed = ApiAddress::parse(text).map_or_else(|error| error.to_string(), |address| address.url());
            assert_eq!(parsed, want, "{text}");
        };
        let (syntax, plain) = (InvalidApiAddress::Syntax.to_string(), InvalidApiAddress::Plain.to_string());
        check("https://10.0.0.1:6443", "https://10.0.0.1:6443");
        check("https://k8s.example.com/clusters/a/", "https://k8s.example.com:443/clusters/a");
        check("https://[fd00::1]:6443", "https://[fd00::1]:6443");
        check("http://127.0.0.1:8001", "http://127.0.0.1:8001");
        check("http://[::1]", "http://[::1]:80");
        check("http://localhost:8001/", "http://localhost:8001");
        for text in ["http://10.0.0.1:8001", "http://127.0.0.1.example.com", "http://[fd00::1]:80"] {
            check(text, &plain);
        }
        for text in [
            "",
            "10.0.0.1:6443",
            "ftp://a",
            "https://",
            "https://a:b",
            "https://a:99999",
            "https://u@a",
            "https://a?b",
            "https://a#b",
        ] {
            check(text, &syntax);
        }
    }

    #[test]
    fn a_pod_knows_its_server() {
        let check = |host: Option<&str>, port: Option<&str>, want: Option<&str>| {
            assert_eq!(ApiAddress::in_cluster(host, port).ok().map(|address| address.url()).as_deref(), want);
        };
        check(Some("10.96.0.1"), Some("443"), Some("https://10.96.0.1:443"));
        check(Some("fd00::1"), Some("443"), Some("https://[fd00::1]:443"));
        check(None, Some("443"), None);
        check(Some(""), Some("443"), None);
        check(Some("10.96.0.1"), Some("x"), None);
        check(Some("a b"), Some("443"), None);
        assert_eq!(ApiAddress::in_cluster(Some("::1"), Some("1")).unwrap().host, "::1");
    }
}
