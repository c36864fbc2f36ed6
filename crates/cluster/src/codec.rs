//! The encoding of foca's messages in datagrams. All numbers are little-endian.
//!
//! ```text
//!   identity  node 16, incarnation 16, family 1 (4 or 6), address 4 or 16, port 2
//!   header    sender: identity, its suspicion number 2, receiver: identity, kind 1,
//!             then for kinds 0 to 5 the probe's number 1, and for kinds 2 to 5 a third identity
//!   member    identity, suspicion number 2, state 1
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bucksaw_record::Id;
use bytes::{Buf, BufMut};
use foca::{Header, Member, Message, State};

use crate::identity::Identity;

const IDENTITY_BYTES_MAX: usize = 16 + 16 + 1 + 16 + 2;
const HEADER_BYTES_MAX: usize = 3 * IDENTITY_BYTES_MAX + 4;

/// Encodes and decodes foca's messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketCodec;

/// Why a message cannot be decoded or encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CodecError {
    #[error("the message is truncated")]
    Truncated,
    #[error("the message has an unknown kind or state, or an invalid address")]
    Unknown,
    #[error("the packet is full")]
    Full,
}

impl foca::Codec<Identity> for PacketCodec {
    type Error = CodecError;

    fn encode_header(&mut self, header: &Header<Identity>, buf: impl BufMut) -> Result<(), CodecError> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES_MAX);
        put_identity(&header.src, &mut bytes);
        bytes.put_u16_le(header.src_incarnation);
        put_identity(&header.dst, &mut bytes);
        let (kind, probe, about) = match &header.message {
            Message::Ping(probe) => (0, Some(*probe), None),
            Message::Ack(probe) => (1, Some(*probe), None),
            Message::PingReq { target, probe_number } => (2, Some(*probe_number), Some(target)),
            Message::IndirectPing { origin, probe_number } => (3, Some(*probe_number), Some(origin)),
            Message::IndirectAck { target, probe_number } => (4, Some(*probe_number), Some(target)),
            Message::ForwardedAck { origin, probe_number } => (5, Some(*probe_number), Some(origin)),
            Message::Announce => (6, None, None),
            Message::Feed => (7, None, None),
            Message::Gossip => (8, None, None),
            Message::TurnUndead => (9, None, None),
            Message::Broadcast => return Err(CodecError::Unknown),
        };
        bytes.put_u8(kind);
        bytes.extend(probe);
        if let Some(about) = about {
            put_identity(about, &mut bytes);
        }
        put(&bytes, buf)
    }

    fn decode_header(&mut self, mut buf: impl Buf) -> Result<Header<Identity>, CodecError> {
        let buf = &mut buf;
        let src = identity(buf)?;
        let src_incarnation = buf.try_get_u16_le().map_err(truncated)?;
        let dst = identity(buf)?;
        let kind = buf.try_get_u8().map_err(truncated)?;
        let message = match kind {
            0 => Message::Ping(buf.try_get_u8().map_err(truncated)?),
            1 => Message::Ack(buf.try_get_u8().map_err(truncated)?),
            2..=5 => {
                let probe_number = buf.try_get_u8().map_err(truncated)?;
                let about = identity(buf)?;
                match kind {
                    2 => Message::PingReq { target: about, probe_number },
                    3 => Message::IndirectPing { origin: about, probe_number },
                    4 => Message::IndirectAck { target: about, probe_number },
                    _ => Message::ForwardedAck { origin: about, probe_number },
                }
            }
            6 => Message::Announce,
            7 => Message::Feed,
            8 => Message::Gossip,
            9 => Message::TurnUndead,
            _ => return Err(CodecError::Unknown),
        };
        Ok(Header { src, src_incarnation, dst, message })
    }

    fn encode_member(&mut self, member: &Member<Identity>, buf: impl BufMut) -> Result<(), CodecError> {
        let mut bytes = Vec::with_capacity(IDENTITY_BYTES_MAX + 3);
        put_identity(member.id(), &mut bytes);
        bytes.put_u16_le(member.incarnation());
        bytes.put_u8(match member.state() {
            State::Alive => 0,
            State::Suspect => 1,
            State::Down => 2,
        });
        put(&bytes, buf)
    }

    fn decode_member(&mut self, mut buf: impl Buf) -> Result<Member<Identity>, CodecError> {
        let buf = &mut buf;
        let id = identity(buf)?;
        let incarnation = buf.try_get_u16_le().map_err(truncated)?;
        let state = match buf.try_get_u8().map_err(truncated)? {
            0 => State::Alive,
            1 => State::Suspect,
            2 => State::Down,
            _ => return Err(CodecError::Unknown),
        };
        Ok(Member::new(id, incarnation, state))
    }
}

/// Appends all bytes or none.
fn put(bytes: &[u8], mut buf: impl BufMut) -> Result<(), CodecError> {
    if buf.remaining_mut() < bytes.len() {
        return Err(CodecError::Full);
    }
    buf.put_slice(bytes);
    Ok(())
}

fn put_identity(identity: &Identity, bytes: &mut Vec<u8>) {
    bytes.put_u128_le(identity.node.bits());
    bytes.put_u128_le(identity.incarnation.bits());
    match identity.address.ip() {
        IpAddr::V4(ip) => {
            bytes.put_u8(4);
            bytes.put_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes.put_u8(6);
            bytes.put_slice(&ip.octets());
        }
    }
    bytes.put_u16_le(identity.address.port());
}

fn identity(buf: &mut impl Buf) -> Result<Identity, CodecError> {
    let node = Id::from_bits(buf.try_get_u128_le().map_err(truncated)?);
    let incarnation = Id::from_bits(buf.try_get_u128_le().map_err(truncated)?);
    let ip: IpAddr = match buf.try_get_u8().map_err(truncated)? {
        4 => Ipv4Addr::from_bits(buf.try_get_u32().map_err(truncated)?).into(),
        6 => Ipv6Addr::from_bits(buf.try_get_u128().map_err(truncated)?).into(),
        _ => return Err(CodecError::Unknown),
    };
    let port = buf.try_get_u16_le().map_err(truncated)?;
    if port == 0 || ip.is_unspecified() {
        return Err(CodecError::Unknown);
    }
    Ok(Identity { node, incarnation, address: SocketAddr::new(ip, port) })
}

fn truncated(_: bytes::TryGetError) -> CodecError {
    CodecError::Truncated
}

#[cfg(test)]
pub(crate) mod tests;
