//! Encodes and validates datagrams.
//!
//! ```text
//!   offset  size  field
//!        0     1  version: PROTOCOL
//!        1     1  kind: 1 gossip, 2 facts; unknown kinds from 128 on are ignored
//!        2        gossip: foca's header, then a count of members (big-endian, 2 bytes) and the members (see `codec`);
//!                 facts: one entry as JSON
//! ```
//! All bytes are validated before foca receives them, because foca trusts its input.

use bucksaw_env::DATAGRAM_BYTES_MAX;
use bytes::Buf as _;
use foca::{Codec as _, Header, Member, Message};

use crate::PROTOCOL;
use crate::codec::PacketCodec;
use crate::entry::Entry;
use crate::identity::Identity;

const HEADER_BYTES: usize = 2;
const VERSION: u8 = PROTOCOL as u8;
const GOSSIP: u8 = 1;
const FACTS: u8 = 2;

/// Unknown kinds from here on are ignored.
const OPTIONAL_KIND_MIN: u8 = 128;

/// Maximum size of a foca message.
pub(crate) const GOSSIP_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - HEADER_BYTES;

/// A valid datagram.
#[derive(Debug)]
pub(crate) enum Packet<'a> {
    Gossip(Box<GossipPacket<'a>>),
    Facts(Box<Entry>),
}

/// A message of foca.
#[derive(Debug)]
pub(crate) struct GossipPacket<'a> {
    pub(crate) header: Header<Identity>,
    /// The members in it.
    pub(crate) members: Vec<Member<Identity>>,
    /// The encoded message.
    pub(crate) bytes: &'a [u8],
}

/// Why a datagram is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketError {
    /// It is invalid.
    Malformed,
    /// Its sender has another major version.
    Version(u8),
    /// Its kind was added by a later version.
    UnknownKind,
}

impl<'a> Packet<'a> {
    pub(crate) fn parse(datagram: &'a [u8]) -> Result<Self, PacketError> {
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return Err(PacketError::Malformed);
        }
        let (head, bytes) = datagram.split_first_chunk::<HEADER_BYTES>().ok_or(PacketError::Malformed)?;
        match *head {
            [VERSION, GOSSIP] => Ok(Self::Gossip(Box::new(GossipPacket::parse(bytes).ok_or(PacketError::Malformed)?))),
            [VERSION, FACTS] => {
                let entry: Entry = serde_json::from_slice(bytes).map_err(|_| PacketError::Malformed)?;
                if entry.is_valid() { Ok(Self::Facts(Box::new(entry))) } else { Err(PacketError::Malformed) }
            }
            [VERSION, OPTIONAL_KIND_MIN..=u8::MAX] => Err(PacketError::UnknownKind),
            [VERSION, _] => Err(PacketError::Malformed),
            [other, _] => Err(PacketError::Version(other)),
        }
    }
}

impl<'a> GossipPacket<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let header = PacketCodec.decode_header(&mut rest).ok()?;
        let mut members = Vec::new();
        if !rest.is_empty() {
            if matches!(header.message, Message::Announce | Message::TurnUndead) {
                return None;
            }
            for _ in 0..rest.try_get_u16().ok()? {
                members.push(PacketCodec.decode_member(&mut rest).ok()?);
            }
        }
        rest.is_empty().then_some(Self { header, members, bytes })
    }
}

/// A datagram with a foca message.
pub(crate) fn gossip(bytes: &[u8]) -> Vec<u8> {
    [&[VERSION, GOSSIP], bytes].concat()
}

/// A datagram with an entry; `None` if it is too large, which valid facts are not.
pub(crate) fn facts(entry: &Entry) -> Option<Vec<u8>> {
    let mut datagram = vec![VERSION, FACTS];
    serde_json::to_writer(&mut datagram, entry).ok()?;
    (datagram.len() <= DATAGRAM_BYTES_MAX).then_some(datagram)
}

/// Whether a datagram is valid; public for fuzzing.
pub fn is_packet(datagram: &[u8]) -> bool {
    Packet::parse(datagram).is_ok()
}

#[cfg(test)]
mod tests;
