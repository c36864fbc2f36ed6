//! Listeners that other machines can reach and that do not authenticate clients, or do not encrypt what authenticates them:
//! refused unless the user accepts the risk.

use std::net::SocketAddr;

use tracing::warn;

use crate::failure::UsageError;

/// A listener that other machines can reach, and that lacks authentication or encryption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenListener {
    /// The name in `addresses.json` and metrics.
    pub(crate) name: String,
    flag: String,
    address: SocketAddr,
    /// What everybody can do who reaches it.
    allows: &'static str,
}

impl OpenListener {
    /// The listener of a flag, if its address is one that other machines can reach.
    pub(crate) fn new(name: &str, flag: &str, address: SocketAddr, allows: &'static str) -> Option<Self> {
        let is_near = address.ip().to_canonical().is_loopback();
        (!is_near).then(|| Self { name: name.to_owned(), flag: flag.to_owned(), address, allows })
    }
}

/// What the open listeners of a process lack, and what the user can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lacking {
    /// A node has no auth file.
    Authentication,
    /// A node has one, and does not encrypt: tokens can be read on their way.
    Encryption,
    /// An agent authenticates no clients.
    AgentAuthentication,
}

impl Lacking {
    const fn name(self) -> &'static str {
        match self {
            Self::Authentication | Self::AgentAuthentication => "authentication",
            Self::Encryption => "encryption",
        }
    }

    const fn advice(self) -> &'static str {
        match self {
            Self::Authentication => "give --auth-file and --tls-cert, or ",
            Self::Encryption => "give --tls-cert and --tls-key, or ",
            Self::AgentAuthentication => "",
        }
    }
}

/// Refuses to start with open listeners, unless `--insecure-listen` accepts them; then warns of each.
///
/// # Errors
/// Names the listeners and what to do instead.
pub(crate) fn check(open: &[OpenListener], is_accepted: bool, lacking: Lacking) -> Result<(), UsageError> {
    if open.is_empty() {
        return Ok(());
    }
    if is_accepted {
        for OpenListener { name, address, allows, .. } in open {
            warn!(
                listener = name,
                %address,
                "other machines can reach this listener without {}: each of them can {allows}",
                lacking.name()
            );
        }
        return Ok(());
    }
    let flags: Vec<String> = open.iter().map(|listener| format!("{} {}", listener.flag, listener.address)).collect();
    let mut allows: Vec<&str> = Vec::new();
    for listener in open {
        if !allows.contains(&listener.allows) {
            allows.push(listener.allows);
        }
    }
    Err(UsageError(format!(
        "{}: other machines could connect without {} and {}: {}listen on 127.0.0.1, behind a proxy or tunnel that \
         authenticates, or accept this on a network that you trust with --insecure-listen",
        flags.join(", "),
        lacking.name(),
        allows.join(", "),
        lacking.advice()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(name: &str, address: &str, allows: &'static str) -> Option<OpenListener> {
        OpenListener::new(name, &format!("--listen-{name}"), address.parse().unwrap(), allows)
    }

    #[test]
    fn listeners_on_loopback_are_not_open() {
        for near in ["127.0.0.1:7650", "127.8.8.8:1", "[::1]:7650", "[::ffff:127.0.0.1]:7650"] {
            assert_eq!(listener("otlp", near, "write"), None, "{near}");
        }
        for far in ["0.0.0.0:7650", "[::]:7650", "10.0.0.1:7650", "[::ffff:10.0.0.1]:7650", "[2001:db8::1]:1"] {
            assert!(listener("otlp", far, "write").is_some(), "{far}");
        }
    }

    #[test]
    fn open_listeners_are_refused_unless_accepted() {
        let open: Vec<_> = [
            listener("fast", "10.0.0.1:1", "write records"),
            listener("otlp", "127.0.0.1:2", "write records"),
            listener("bulk", "[::]:3", "write records"),
            listener("cluster", "0.0.0.0:4", "act as a node"),
        ]
        .into_iter()
        .flatten()
        .collect();
        let error = check(&open, false, Lacking::Authentication).unwrap_err().to_string();
        let start = "--listen-fast 10.0.0.1:1, --listen-bulk [::]:3, --listen-cluster 0.0.0.0:4: other machines could connect \
                     without authentication and write records, act as a node: give --auth-file and --tls-cert, or listen";
        assert!(error.starts_with(start), "{error}");
        assert!(check(&open, true, Lacking::Authentication).is_ok() && check(&[], false, Lacking::Encryption).is_ok());
    }
}
