//! Fixtures of each version are decoded, and so are messages of the next.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bucksaw_env::{Body, Fs as _, sim};
use bucksaw_fixtures::{GoldenFiles as Files, expect_ready, with_unknown_fields};
use bucksaw_record::{Id, Millis, Producer};
use foca::{Codec as _, Header, Member, Message, State};
use proptest::prelude::*;

use crate::codec::PacketCodec;
use crate::entry::{Departure, DepartureReason, Entry, LiveIdentity};
use crate::exchange::{self, ExchangeError};
use crate::identity::Identity;
use crate::member_file::{MemberFile, PersistedMembers};
use crate::packet::{self, Packet, PacketError};
use crate::{Clients, ClusterVersion, DataSummary, Facts, IncompatiblePeer, Load, PROTOCOL, Roles};

fn files() -> Files {
    Files::new(env!("CARGO_MANIFEST_DIR"), ClusterVersion::OWN)
}

fn id(number: u64) -> Id {
    Id::new(Millis(1_763_680_200_000 + number), Producer::new(number), 0)
}

fn identity(number: u8) -> Identity {
    let address = match number {
        4 => "[2001:db8::4]:7659".parse().unwrap(),
        _ => ([10, 0, 0, number], 7_659).into(),
    };
    Identity { node: id(number.into()), incarnation: id(100 + u64::from(number)), address }
}

/// The name of a message, its header and its members.
type GossipCase = (&'static str, Header<Identity>, Vec<Member<Identity>>);

/// A datagram of each kind of message.
fn gossip() -> Vec<GossipCase> {
    let about = identity(4);
    let messages = [
        ("ping", Message::Ping(7)),
        ("ack", Message::Ack(7)),
        ("ping-req", Message::PingReq { target: about, probe_number: 8 }),
        ("indirect-ping", Message::IndirectPing { origin: about, probe_number: 8 }),
        ("indirect-ack", Message::IndirectAck { target: about, probe_number: 8 }),
        ("forwarded-ack", Message::ForwardedAck { origin: about, probe_number: 8 }),
        ("announce", Message::Announce),
        ("feed", Message::Feed),
        ("gossip", Message::Gossip),
        ("turn-undead", Message::TurnUndead),
    ];
    let states = [(2, State::Alive), (3, State::Suspect), (4, State::Down)];
    let all = messages.into_iter().map(|(name, message)| {
        let members = match name {
            "gossip" => states.iter().map(|(node, state)| Member::new(identity(*node), 5, *state)).collect(),
            _ => Vec::new(),
        };
        (name, Header { src: identity(1), src_incarnation: 3, dst: identity(2), message }, members)
    });
    all.collect()
}

/// An entry with every field.
fn entry() -> Entry {
    let at = |port: u16| Some(format!("10.0.0.1:{port}"));
    let held =
        |bytes| DataSummary { bytes, oldest: Some(Millis(1_763_680_000_000)), newest: Some(Millis(1_763_680_100_000)) };
    let facts = Facts {
        incarnation: id(101),
        version: 9,
        address: identity(1).address,
        clients: Clients { http: at(7_650), fast: at(7_651), durable: at(7_652), bulk: at(7_653) },
        roles: Roles { ingest: true, store: true },
        load: Load { bytes_per_second: 1_000, connections: 3, level: 1 },
        queue: held(10),
        stored: held(20),
        repair_pass_started: Some(Millis(1_763_680_150_000)),
        free_bytes: 1 << 40,
        draining: true,
        ..Facts::new(id(1))
    };
    Entry {
        facts,
        departure: None,
        live: Some(LiveIdentity { incarnation: id(101), address: identity(1).address }),
        bootstrapping: false,
    }
}

fn entries() -> Vec<Entry> {
    let departed = |number: u8, reason| {
        let identity = identity(number);
        let facts = Facts { incarnation: identity.incarnation, address: identity.address, ..Facts::new(identity.node) };
        Entry { facts, departure: Some(Departure { reason, elapsed_ms: 5_000 }), live: None, bootstrapping: false }
    };
    vec![
        entry(),
        departed(2, DepartureReason::Down),
        departed(3, DepartureReason::Left),
        departed(4, DepartureReason::Forgotten),
    ]
}

fn bytes(body: Body) -> Vec<u8> {
    expect_ready(body.read_all(1 << 20)).unwrap()
}

fn read(bytes: &[u8]) -> Result<Vec<Entry>, ExchangeError> {
    expect_ready(exchange::read(Body::whole(bytes.to_vec())))
}

/// Reads a `members.json`.
fn read_member_file(bytes: &[u8]) -> Option<PersistedMembers> {
    let fs = sim::Fs::new();
    fs.create_dir_all(Path::new("/data")).unwrap();
    fs.create(Path::new("/data/members.json")).unwrap().append(&[bytes]).unwrap();
    MemberFile::new(Arc::new(fs), Path::new("/data")).read().unwrap()
}

fn write_member_file(members: &PersistedMembers) -> Vec<u8> {
    let fs = sim::Fs::new();
    fs.create_dir_all(Path::new("/data")).unwrap();
    MemberFile::new(Arc::new(fs.clone()), Path::new("/data")).write(members).unwrap();
    let mut bytes = fs.live_bytes("/data/members.json").unwrap();
    assert_eq!(bytes.pop(), Some(b'\n'));
    bytes
}

#[test]
fn gossip_matches_its_fixtures() {
    for (name, header, members) in gossip() {
        let mut content = Vec::new();
        PacketCodec.encode_header(&header, &mut content).unwrap();
        if !members.is_empty() {
            content.extend(u16::try_from(members.len()).unwrap().to_be_bytes());
            members.iter().for_each(|member| PacketCodec.encode_member(member, &mut content).unwrap());
        }
        files().check(name, &packet::gossip(&content));
        for datagram in files().read_all(name) {
            let Ok(Packet::Gossip(found)) = Packet::parse(&datagram) else { panic!("{name} is not understood") };
            assert_eq!((&found.header, &found.members), (&header, &members), "{name}");
        }
    }
}

#[test]
fn facts_match_their_fixture() {
    files().check("facts", &packet::facts(&entry()).unwrap());
    for datagram in files().read_all("facts") {
        let Ok(Packet::Facts(found)) = Packet::parse(&datagram) else { panic!("not understood") };
        assert_eq!(*found, entry());
    }
}

#[test]
fn digests_match_their_fixture() {
    files().check("exchange", &bytes(exchange::write(&entries()).unwrap()));
    files().read_all("exchange").iter().for_each(|list| assert_eq!(read(list).unwrap(), entries()));
}

#[test]
fn member_files_match_their_fixture() {
    let members = PersistedMembers { incarnation: id(7), is_bootstrapping: false, members: entries() };
    files().check("members", &write_member_file(&members));
    files().read_all("members").iter().for_each(|list| assert_eq!(read_member_file(list).as_ref(), Some(&members)));
}

#[test]
fn the_error_for_another_major_version_names_both() {
    let check = |text: &str, address: Option<&str>| {
        let address = address.map(|address| address.parse().unwrap());
        let Err(unread @ ExchangeError::Version(peer)) = read(text.as_bytes()) else { panic!("{text}") };
        assert_eq!(peer, IncompatiblePeer { address, protocol: PROTOCOL + 1 });
        let words = "protocol version 2, this node has 1: incompatible";
        assert_eq!(io::Error::from(unread).to_string(), words);
    };
    check(r#"{"protocol":2}"#, None);
    check(r#"{"protocol":2,"members":{"everything":"is different"}}"#, None);
    check(r#"{"protocol":2,"members":[{"facts":{"address":"10.0.0.7:1"}}]}"#, Some("10.0.0.7:1"));
    assert!(
        matches!(read(b"{}"), Err(ExchangeError::Io(_)))
            && matches!(read(br#"{"protocol":1}"#), Err(ExchangeError::Io(_)))
    );
}

proptest! {
    #[test]
    fn fields_of_later_versions_are_ignored(seed: u64) {
        let facts = packet::facts(&entry()).unwrap();
        let grown = [&facts[..2], &with_unknown_fields(&facts[2..], seed).unwrap()].concat();
        // Facts that are too long for a datagram are not sent in one.
        if grown.len() <= bucksaw_env::DATAGRAM_BYTES_MAX {
            let Ok(Packet::Facts(found)) = Packet::parse(&grown) else { panic!("not understood") };
            prop_assert_eq!(*found, entry());
        }
        let list = bytes(exchange::write(&entries()).unwrap());
        prop_assert_eq!(read(&with_unknown_fields(&list, seed).unwrap()).unwrap(), entries());
        let members = PersistedMembers { incarnation: id(7), is_bootstrapping: false, members: entries() };
        prop_assert_eq!(read_member_file(&with_unknown_fields(&write_member_file(&members), seed).unwrap()), Some(members));
    }

    #[test]
    fn packets_of_unknown_optional_kinds_are_ignored(kind in 128_u8.., content in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(Packet::parse(&[&[1, kind], &content[..]].concat()).err(), Some(PacketError::UnknownKind));
    }
}
