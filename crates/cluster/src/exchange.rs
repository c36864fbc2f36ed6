//! The call `cluster/exchange`: two nodes compare all that they know.
//!
//! Question and answer are the same: `{"protocol": 1, "members": […]}`, all of the one side and all of the other.
//! A question without members tells nothing, and is how a node that starts looks for a twin ([`crate::place`]).
//! It is how a node joins, how facts arrive whose datagrams were lost, and how nodes that are down stay known.
//!
//! `protocol` is in it in every version to come, whatever else is: so a node of another version can be told why it is refused.

use std::io;
use std::net::SocketAddr;

use bucksaw_env::Body;
use bucksaw_rpc::{DecodeError, decode_versioned};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::entry::Entry;
use crate::table::MEMBERS_MAX;
use crate::{IncompatiblePeer, PROTOCOL};

/// The name of the call.
pub(crate) const EXCHANGE_CALL: &str = "cluster/exchange";

/// Room for all nodes that may be known, each at its largest.
const BYTES_MAX: usize = 2 << 20;

#[derive(Serialize)]
struct DigestOut<'a> {
    protocol: u32,
    members: &'a [Entry],
}

#[derive(Deserialize)]
struct DigestIn<'a> {
    #[serde(borrow)]
    members: Vec<&'a RawValue>,
}

/// Why a list was not taken over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExchangeError {
    /// It is not what is expected, or was cut off.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is from a node of another major version.
    #[error("protocol version {}, this node has {PROTOCOL}: incompatible", .0.protocol)]
    Version(IncompatiblePeer),
}

impl From<ExchangeError> for io::Error {
    fn from(unread: ExchangeError) -> Self {
        match unread {
            ExchangeError::Io(error) => error,
            ExchangeError::Version(_) => Self::new(io::ErrorKind::InvalidData, unread.to_string()),
        }
    }
}

/// What a node tells.
pub(crate) fn write(entries: &[Entry]) -> io::Result<Body> {
    Ok(Body::whole(serde_json::to_vec(&DigestOut { protocol: PROTOCOL, members: entries })?))
}

/// What another node told. The first is about itself. Nodes that make no sense are left out.
pub(crate) async fn read(body: Body) -> Result<Vec<Entry>, ExchangeError> {
    parse(&body.read_all(BYTES_MAX).await?)
}

fn parse(bytes: &[u8]) -> Result<Vec<Entry>, ExchangeError> {
    let digest: DigestIn<'_> =
        decode_versioned(bytes, "protocol", &(PROTOCOL..=PROTOCOL)).map_err(|error| match error {
            DecodeError::Version(Some(protocol)) => {
                ExchangeError::Version(IncompatiblePeer { address: sender_address(bytes), protocol })
            }
            DecodeError::Version(None) => {
                ExchangeError::Io(io::Error::new(io::ErrorKind::InvalidData, "no protocol version"))
            }
            DecodeError::Invalid(error) => ExchangeError::Io(error.into()),
        })?;
    let members = digest.members.into_iter().take(MEMBERS_MAX + 1);
    let members = members.filter_map(|member| serde_json::from_str::<Entry>(member.get()).ok());
    Ok(members.filter(Entry::is_valid).collect())
}

/// Where a node of another version is, if it says so as we would.
fn sender_address(bytes: &[u8]) -> Option<SocketAddr> {
    let told: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    told["members"][0]["facts"]["address"].as_str()?.parse().ok()
}
