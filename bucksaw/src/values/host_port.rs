//! Addresses as people type them. Names are not looked up here.

use std::fmt;
use std::str::FromStr;

/// A host by name or address, and a port: `localhost:7651`, `10.0.0.1:7651`, `[::1]:7651`.
///
/// Prints as it was typed, which is what the standard library's name lookup takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
}

/// Why a text is not a [`HostPort`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected HOST:PORT such as 127.0.0.1:7651 or [::1]:7651")]
pub(crate) struct InvalidHostPort;

impl HostPort {
    /// The host, an IPv6 address without brackets.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }
}

impl FromStr for HostPort {
    type Err = InvalidHostPort;

    fn from_str(text: &str) -> Result<Self, InvalidHostPort> {
        let (host, port) = text.rsplit_once(':').ok_or(InvalidHostPort)?;
        let bare = host.strip_prefix('[').map_or(Some(host), |host| host.strip_suffix(']')).ok_or(InvalidHostPort)?;
        let odd = |char: char| char.is_whitespace() || char.is_control() || matches!(char, '/' | '[' | ']' | ',');
        // Colons of the host stand in brackets, or the last of them could be the port's.
        if bare.is_empty() || bare.contains(odd) || (bare.contains(':') && bare.len() == host.len()) {
            return Err(InvalidHostPort);
        }
        if !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(InvalidHostPort);
        }
        Ok(Self { host: bare.to_owned(), port: port.parse().map_err(|_| InvalidHostPort)? })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Where to listen; the empty text turns a listener off, which is `None`. Port 0 picks a free one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenAddress(pub(crate) Option<HostPort>);

impl FromStr for ListenAddress {
    type Err = InvalidHostPort;

    fn from_str(text: &str) -> Result<Self, InvalidHostPort> {
        if text.is_empty() { Ok(Self(None)) } else { text.parse().map(|at| Self(Some(at))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_parse_and_print() {
        let check = |text: &str, want: Option<(&str, u16)>| {
            let got = text.parse::<HostPort>().ok();
            assert_eq!(got.as_ref().map(|at| (at.host.as_str(), at.port)), want, "{text}");
            assert!(got.is_none_or(|at| at.to_string() == text), "{text}");
        };
        check("127.0.0.1:7650", Some(("127.0.0.1", 7_650)));
        check("logs.example.com:1", Some(("logs.example.com", 1)));
        check("[::1]:0", Some(("::1", 0)));
        for text in ["", "a", ":1", "a:", "a:65536", "a:-1", "a:+1", "::1:80", "[::1:80", "[]:1", "a b:1", "http://a:1"]
        {
            check(text, None);
        }
        assert_eq!("".parse(), Ok(ListenAddress(None)));
        assert!("x".parse::<ListenAddress>().is_err());
    }
}
