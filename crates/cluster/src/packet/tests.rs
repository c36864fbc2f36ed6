use bucksaw_record::{Id, Millis, Producer};
use foca::Codec as _;
use proptest::prelude::*;

use super::*;
use crate::codec::tests::{any_identity, any_member, any_message};
use crate::entry::{Departure, DepartureReason, LiveIdentity};
use crate::{ADDRESS_BYTES_MAX, Clients, DataSummary, Facts, Format, Formats, Load, RE_REPLICATED_MAX, Roles};

/// The largest valid facts, of a live member; the entry of a departed one is smaller.
fn largest() -> Entry {
    let text = Some("/".repeat(ADDRESS_BYTES_MAX));
    let incarnation = Id::new(Millis::MAX, Producer::new(u64::MAX), 0);
    let address = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535".parse().unwrap();
    let held = DataSummary { bytes: u64::MAX, oldest: Some(Millis::MAX), newest: Some(Millis::MAX) };
    let facts = Facts {
        node: Id::MAX,
        incarnation,
        version: u64::MAX,
        address,
        clients: Clients { http: text.clone(), fast: text.clone(), durable: text.clone(), bulk: text },
        roles: Roles { ingest: false, store: false },
        protocol: u32::MAX,
        protocol_minor: 999,
        formats: Formats { queue: Format::new(99), stored: Format::new(99) },
        load: Load { bytes_per_second: u64::MAX, connections: u64::MAX, level: 3 },
        queue: held,
        stored: held,
        stored_bytes_at_open: Some(u64::MAX),
        repair_pass_started: Some(Millis::MAX),
        re_replicated: vec![(1 << 48) - 1; RE_REPLICATED_MAX],
        free_bytes: u64::MAX,
        draining: false,
        left: false,
    };
    Entry { facts, departure: None, live: Some(LiveIdentity { incarnation: Id::MAX, address }), bootstrapping: false }
}

#[test]
fn the_largest_facts_fit_into_a_datagram() {
    let departure = Some(Departure { reason: DepartureReason::Forgotten, elapsed_ms: u64::MAX });
    for entry in [largest(), Entry { departure, live: None, ..largest() }] {
        assert!(entry.is_valid());
        let datagram = facts(&entry).unwrap();
        let Ok(Packet::Facts(found)) = Packet::parse(&datagram) else { panic!("not understood") };
        assert_eq!(*found, entry);
    }
}

#[test]
fn fields_of_other_versions_are_ignored() {
    let id = "01ARYZ6S410000000000000000";
    let text = format!(
        r#"{{"facts":{{"node":"{id}","incarnation":"{id}","address":"10.0.0.1:1","mood":"good"}},"colour":1}}"#
    );
    let datagram = [&[1, 2], text.as_bytes()].concat();
    let Ok(Packet::Facts(entry)) = Packet::parse(&datagram) else { panic!("not understood") };
    assert_eq!((entry.facts.roles, entry.facts.version, entry.departure), (Roles::default(), 0, None));
}

#[test]
fn invalid_facts_are_refused() {
    let check = |change: fn(&mut Entry)| {
        let mut entry = largest();
        change(&mut entry);
        assert!(!entry.is_valid());
        let datagram = [&[1, 2], serde_json::to_vec(&entry).unwrap().as_slice()].concat();
        assert_eq!(Packet::parse(&datagram).err(), Some(PacketError::Malformed));
    };
    check(|entry| entry.facts.clients.bulk = Some("a".repeat(ADDRESS_BYTES_MAX + 1)));
    check(|entry| entry.facts.clients.fast = Some("a\u{1b}[2J".to_owned()));
    check(|entry| entry.facts.load.level = 4);
    check(|entry| entry.facts.re_replicated.push(1));
    check(|entry| entry.facts.protocol_minor = 1_000);
    check(|entry| entry.facts.formats.stored.reads = 100);
    check(|entry| entry.facts.address.set_port(0));
    check(|entry| entry.facts.address.set_ip([0, 0, 0, 0].into()));
    check(|entry| entry.facts.incarnation = Id::MAX);
    check(|entry| entry.live.as_mut().unwrap().address.set_port(0));
}

#[test]
fn other_versions_are_distinguished_from_malformed_packets() {
    let check = |datagram: &[u8], want| assert_eq!(Packet::parse(datagram).err(), Some(want), "{datagram:?}");
    check(&[], PacketError::Malformed);
    check(&[1], PacketError::Malformed);
    check(&[1, 3], PacketError::Malformed);
    check(&[1, 1], PacketError::Malformed);
    check(&[1, 127, 9], PacketError::Malformed);
    check(&[1, 128, 9], PacketError::UnknownKind);
    check(&[1, 255], PacketError::UnknownKind);
    check(&[2, 1], PacketError::Version(2));
    check(&[0, 0, 0], PacketError::Version(0));
    check(&[1; DATAGRAM_BYTES_MAX + 1], PacketError::Malformed);
}

proptest! {
    #[test]
    fn gossip_decodes_to_what_was_encoded(
        src in any_identity(), message in any_message(), members in proptest::collection::vec(any_member(), 0..20),
    ) {
        let bare = matches!(message, Message::Announce | Message::TurnUndead);
        let header = Header { src, src_incarnation: 3, dst: src, message };
        let mut bytes = Vec::new();
        PacketCodec.encode_header(&header, &mut bytes).unwrap();
        if !bare {
            bytes.extend(u16::try_from(members.len()).unwrap().to_be_bytes());
            for member in &members {
                PacketCodec.encode_member(member, &mut bytes).unwrap();
            }
        }
        let datagram = gossip(&bytes);
        let Ok(Packet::Gossip(found)) = Packet::parse(&datagram) else { panic!("not understood") };
        prop_assert_eq!(&found.header, &header);
        prop_assert_eq!(found.members, if bare { Vec::new() } else { members });
        // Trailing and missing bytes are refused.
        prop_assert!(!is_packet(&[datagram.as_slice(), &[0]].concat()));
        prop_assert!(!is_packet(&datagram[..datagram.len() - 1]) );
    }

    #[test]
    fn random_bytes_are_refused(kind in 1_u8..3, bytes in proptest::collection::vec(any::<u8>(), 0..1_400)) {
        prop_assert!(!is_packet(&bytes) || bytes.len() > 70);
        prop_assert!(!is_packet(&[&[1, kind], bytes.as_slice()].concat()) || bytes.len() > 70);
    }
}
