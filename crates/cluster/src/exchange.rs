//! The call `cluster/exchange`: two nodes exchange their digests.
//!
//! Request and reply have one format, `{"protocol": 1, "members": […]}`, with all entries of the sender. A request without
//! members publishes nothing; a starting node uses it to search for a duplicate of its id ([`crate::join_state`]).
//! Exchanges are how nodes join, how facts of lost datagrams arrive, and how down members stay known.
//!
//! Every version has `protocol`, so that a node of another version is refused with a reason.

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

/// Maximum size of a digest: all members, each of maximum size.
const BYTES_MAX: usize = 2 << 20;

/// Written with entries, and read with their JSON, so that an invalid entry does not spoil the others.
#[derive(Serialize, Deserialize)]
struct Digest<M> {
    protocol: u32,
    members: M,
}

/// Why a digest was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExchangeError {
    /// It is invalid or truncated.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Its sender has another major version.
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

/// Encodes a digest.
pub(crate) fn write(entries: &[Entry]) -> io::Result<Body> {
    Ok(Body::whole(serde_json::to_vec(&Digest { protocol: PROTOCOL, members: entries })?))
}

/// Decodes a digest, whose first entry is its sender. Invalid entries are skipped.
pub(crate) async fn read(body: Body) -> Result<Vec<Entry>, ExchangeError> {
    parse(&body.read_all(BYTES_MAX).await?)
}

fn parse(bytes: &[u8]) -> Result<Vec<Entry>, ExchangeError> {
    let digest: Digest<Vec<&RawValue>> =
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

/// The address of a sender of another version, if its digest has this format.
fn sender_address(bytes: &[u8]) -> Option<SocketAddr> {
    let digest: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    digest["members"][0]["facts"]["address"].as_str()?.parse().ok()
}
