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
        prop_assert_eq!(PacketCodec.decode_header(bytes.as_slice()), Err(CodecError::Truncated));
    }

    #[test]
    fn a_full_packet_is_left_clean(member in any_member(), room in 0_usize..38) {
        let mut bytes = Vec::new();
        prop_assert_eq!(PacketCodec.encode_member(&member, (&mut bytes).limit(room)), Err(CodecError::Full));
        prop_assert!(bytes.is_empty());
    }
}
