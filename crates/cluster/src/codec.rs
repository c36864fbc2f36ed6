//! The encoding of foca's messages in datagrams. All numbers are little-endian.
//!
//! ```text
//!   identity  node 16, incarnation 16, family 1 (4 or 6), address 4 or 16, port 2
//!   header    from: identity, its suspicion number 2, to: identity, kind 1,
//!             then for kinds 0 to 5 the probe's number 1, and for kinds 2 to 5 whom it is about: identity
//!   member    identity, suspicion number 2, state 1
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bucksaw_record::Id;
use bytes::{Buf, BufMut};
use foca::{Header, Member, Message, State};

use crate::identity::Identity;

/// The longest header: two identities of 51 bytes, their numbers, and a third.
const HEADER_BYTES_MAX: usize = 3 * IDENTITY_BYTES_MAX + 4;
const IDENTITY_BYTES_MAX: usize = 16 + 16 + 1 + 16 + 2;

/// Encodes and decodes foca's messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketCodec;

/// Why a message cannot be decoded or encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CodecError {
    #[error("the message is cut off")]
    CutOff,
    #[error("the message has a kind, a state or an address that there is not")]
    Unknown,
    #[error("there is no more room in the packet")]
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
        let src_incarnation = buf.try_get_u16_le().map_err(cut_off)?;
        let dst = identity(buf)?;
        let kind = buf.try_get_u8().map_err(cut_off)?;
        let message = match kind {
            0 => Message::Ping(buf.try_get_u8().map_err(cut_off)?),
            1 => Message::Ack(buf.try_get_u8().map_err(cut_off)?),
            2..=5 => {
                let probe_number = buf.try_get_u8().map_err(cut_off)?;
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
        let incarnation = buf.try_get_u16_le().map_err(cut_off)?;
        let state = match buf.try_get_u8().map_err(cut_off)? {
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
    let node = Id::from_bits(buf.try_get_u128_le().map_err(cut_off)?);
    let incarnation = Id::from_bits(buf.try_get_u128_le().map_err(cut_off)?);
    let ip: IpAddr = match buf.try_get_u8().map_err(cut_off)? {
        4 => Ipv4Addr::from_bits(buf.try_get_u32().map_err(cut_off)?).into(),
        6 => Ipv6Addr::from_bits(buf.try_get_u128().map_err(cut_off)?).into(),
        _ => return Err(CodecError::Unknown),
    };
    let port = buf.try_get_u16_le().map_err(cut_off)?;
    if port == 0 || ip.is_unspecified() {
        return Err(CodecError::Unknown);
    }
    Ok(Identity { node, incarnation, address: SocketAddr::new(ip, port) })
}

fn cut_off(_: bytes::TryGetError) -> CodecError {
    CodecError::CutOff
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use foca::Codec as _;
    use proptest::prelude::*;

    pub(crate) fn any_identity() -> impl Strategy<Value = Identity> {
        (any::<u128>(), any::<u128>(), any::<std::net::IpAddr>(), 1_u16..)
            .prop_filter("specified addresses", |(_, _, ip, _)| !ip.is_unspecified())
            .prop_map(|(node, incarnation, ip, port)| Identity {
                node: Id::from_bits(node),
                incarnation: Id::from_bits(incarnation),
                address: SocketAddr::new(ip, port),
            })
    }

    pub(crate) fn any_message() -> impl Strategy<Value = Message<Identity>> {
        (0..10, any::<u8>(), any_identity()).prop_map(|(kind, probe_number, about)| match kind {
            0 => Message::Ping(probe_number),
            1 => Message::Ack(probe_number),
            2 => Message::PingReq { target: about, probe_number },
            3 => Message::IndirectPing { origin: about, probe_number },
            4 => Message::IndirectAck { target: about, probe_number },
            5 => Message::ForwardedAck { origin: about, probe_number },
            6 => Message::Announce,
            7 => Message::Feed,
            8 => Message::Gossip,
            _ => Message::TurnUndead,
        })
    }

    pub(crate) fn any_member() -> impl Strategy<Value = Member<Identity>> {
        let state = prop_oneof![Just(State::Alive), Just(State::Suspect), Just(State::Down)];
        (any_identity(), any::<u16>(), state).prop_map(|(id, number, state)| Member::new(id, number, state))
    }

    proptest! {
        #[test]
        fn headers_and_members_come_back(
            src in any_identity(), src_incarnation: u16, dst in any_identity(), message in any_message(), member in any_member(),
        ) {
            let header = Header { src, src_incarnation, dst, message };
            let mut bytes = Vec::new();
            PacketCodec.encode_header(&header, &mut bytes).unwrap();
            prop_assert!(bytes.len() <= HEADER_BYTES_MAX);
            PacketCodec.encode_member(&member, &mut bytes).unwrap();
            let mut rest = bytes.as_slice();
            prop_assert_eq!(PacketCodec.decode_header(&mut rest).unwrap(), header);
            prop_assert_eq!(PacketCodec.decode_member(&mut rest).unwrap(), member);
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn what_is_cut_off_is_refused(src in any_identity(), message in any_message(), cut in 1_usize..40) {
            let header = Header { src, src_incarnation: 1, dst: src, message };
            let mut bytes = Vec::new();
            PacketCodec.encode_header(&header, &mut bytes).unwrap();
            bytes.truncate(bytes.len() - cut);
            prop_assert_eq!(PacketCodec.decode_header(bytes.as_slice()), Err(CodecError::CutOff));
        }

        #[test]
        fn a_full_packet_is_left_clean(member in any_member(), room in 0_usize..38) {
            let mut bytes = Vec::new();
            prop_assert_eq!(PacketCodec.encode_member(&member, (&mut bytes).limit(room)), Err(CodecError::Full));
            prop_assert!(bytes.is_empty());
        }
    }
}
