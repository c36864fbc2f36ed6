//! Addresses of listeners and nodes. Names are not resolved.

use std::fmt;
use std::str::FromStr;

/// The host of an address that is only a port.
const LOOPBACK: &str = "127.0.0.1";

/// A host by name or address, and a port: `localhost:7651`, `10.0.0.1:7651`, `[::1]:7651`. Prints as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl HostPort {
    fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let bare = host.strip_prefix('[').map_or(Some(host), |host| host.strip_suffix(']'))?;
        let odd = |char: char| char.is_whitespace() || char.is_control() || matches!(char, '/' | '[' | ']' | ',');
        // A host with colons must be in brackets; otherwise its last colon could start the port.
        let is_host = !bare.is_empty() && !bare.contains(odd) && (!bare.contains(':') || bare.len() != host.len());
        let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
        (is_host && is_port).then_some(Self { host: bare.to_owned(), port: port.parse().ok()? })
    }
}

impl FromStr for HostPort {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text).ok_or("expected HOST:PORT such as 127.0.0.1:7651 or [::1]:7651")
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// The address of a listener; the empty text is `None` and turns it off. Port 0 picks a free port. A port alone is one of
/// 127.0.0.1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenAddress(pub(crate) Option<HostPort>);

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        let address = match text.parse() {
            Ok(port) => HostPort { host: LOOPBACK.to_owned(), port },
            Err(_) => text.parse()?,
        };
        Ok(Self(Some(address)))
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
        let port = "514".parse::<ListenAddress>().unwrap().0.unwrap();
        assert_eq!(port.to_string(), "127.0.0.1:514");
    }
}
