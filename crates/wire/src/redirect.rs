//! Where else a client may go, and how urgently that is said.
//!
//! The text of the message is the addresses, `HOST:PORT`, with a comma between them: at most [`Elsewhere::COUNT_MAX`], of
//! at most [`Elsewhere::ADDRESS_BYTES_MAX`] bytes each, which are all visible ASCII. They are those of the same kind of port
//! (fast, durable, bulk) on other nodes, the one to try first in front.
//!
//! An address is one under which a node says that it can be reached. A client elsewhere may not reach it, so it never
//! gives up its own list for it.

use crate::TEXT_BYTES_MAX;

/// How urgently a client is sent elsewhere. A newer node may know more of them: they count as a suggestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedirectReason(pub u8);

impl RedirectReason {
    /// Others have less to do; whoever stays is served all the same.
    pub const SUGGESTION: Self = Self(0);
    /// A new connection is refused. It follows an [`Answer::Refused`](crate::Answer::Refused), and nothing follows it.
    pub const REFUSAL: Self = Self(1);
    /// The node wants to end the connection: the client closes its side after its last whole batch, hears the
    /// acknowledgements that are missing, and goes. What comes later than some seconds may not be taken.
    pub const CLOSE: Self = Self(2);
}

/// The addresses of other nodes, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    reason: RedirectReason,
    addresses: Vec<String>,
}

impl Redirect {
    /// At most so many addresses.
    pub const COUNT_MAX: usize = 8;

    /// An address has at most so many bytes.
    pub const ADDRESS_BYTES_MAX: usize = 120;

    const _FIT: () = assert!(Self::COUNT_MAX * (Self::ADDRESS_BYTES_MAX + 1) <= TEXT_BYTES_MAX);

    /// What is left of these addresses when those that cannot be addresses, and those beyond the limit, are left out;
    /// `None` when that is nothing.
    #[must_use]
    pub fn new(reason: RedirectReason, addresses: impl IntoIterator<Item = String>) -> Option<Self> {
        let addresses: Vec<String> =
            addresses.into_iter().filter(|address| is_host_port(address.as_bytes())).take(Self::COUNT_MAX).collect();
        (!addresses.is_empty()).then_some(Self { reason, addresses })
    }

    /// How urgent it is.
    #[must_use]
    pub fn reason(&self) -> RedirectReason {
        self.reason
    }

    /// The addresses, the one to try first in front.
    #[must_use]
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

/// Whether this could be `HOST:PORT`; names are not looked up here.
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
