//! Names less loaded nodes to a client.
//!
//! The text of the message is a comma-separated list of addresses `HOST:PORT`: at most [`Redirect::COUNT_MAX`], each of at
//! most [`Redirect::ADDRESS_BYTES_MAX`] bytes of visible ASCII. They belong to ports of the same durability on other nodes;
//! the first is to be tried first.
//!
//! A client may be unable to reach an address that a node publishes, so it keeps its configured list.

use crate::TEXT_BYTES_MAX;

/// Why a client is redirected. Unknown reasons of newer nodes count as a suggestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedirectReason(pub u8);

impl RedirectReason {
    /// Other nodes are less loaded; the client may stay.
    pub const SUGGESTION: Self = Self(0);
    /// A new connection is refused. Follows [`HelloReply::Refused`](crate::HelloReply::Refused) as the last message.
    pub const REFUSAL: Self = Self(1);
    /// The node closes the connection gracefully: the client closes its side after its last whole batch and receives the
    /// missing acknowledgements. The node may refuse what arrives after some seconds.
    pub const CLOSE: Self = Self(2);
}

/// The addresses of other nodes, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    reason: RedirectReason,
    addresses: Vec<String>,
}

impl Redirect {
    /// The maximum number of addresses.
    pub const COUNT_MAX: usize = 8;

    /// The maximum length of an address, in bytes.
    pub const ADDRESS_BYTES_MAX: usize = 120;

    const _FIT: () = assert!(Self::COUNT_MAX * (Self::ADDRESS_BYTES_MAX + 1) <= TEXT_BYTES_MAX);

    /// A redirect to the valid ones of these addresses, up to the limit; `None` if none is valid.
    pub fn new(reason: RedirectReason, addresses: impl IntoIterator<Item = String>) -> Option<Self> {
        let addresses: Vec<String> =
            addresses.into_iter().filter(|address| is_host_port(address.as_bytes())).take(Self::COUNT_MAX).collect();
        (!addresses.is_empty()).then_some(Self { reason, addresses })
    }

    /// Why the client is redirected.
    pub fn reason(&self) -> RedirectReason {
        self.reason
    }

    /// The addresses; the first is to be tried first.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    pub(crate) fn encode_addresses(&self) -> String {
        self.addresses.join(",")
    }

    pub(crate) fn decode(reason: RedirectReason, text: &[u8]) -> Option<Self> {
        let mut addresses = Vec::new();
        for address in text.split(|byte| *byte == b',') {
            if !is_host_port(address) || addresses.len() == Self::COUNT_MAX {
                return None;
            }
            addresses.push(String::from_utf8_lossy(address).into_owned());
        }
        Some(Self { reason, addresses })
    }
}

/// Whether this has the form `HOST:PORT`. Names are not resolved.
fn is_host_port(address: &[u8]) -> bool {
    let Some(colon) = address.iter().rposition(|byte| *byte == b':') else { return false };
    let (host, port) = address.split_at(colon);
    let port = str::from_utf8(port.get(1..).unwrap_or_default()).unwrap_or_default();
    address.len() <= Redirect::ADDRESS_BYTES_MAX
        && !host.is_empty()
        && host.iter().all(|byte| byte.is_ascii_graphic() && *byte != b',')
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port != 0)
}
