//! What clients and nodes of each version say to each other, and what those of the next will.

use bucksaw_record::{Id, Labels, Marks, Millis, Producer};
use bucksaw_segment::Sides;
use bucksaw_versions::Kept;
use proptest::prelude::*;

use super::*;

fn files() -> Kept {
    Kept::new(env!("CARGO_MANIFEST_DIR"), Version::NEWEST)
}

fn hello(version: Version) -> Hello {
    Hello { version, labels: Labels::parse("app=web,host=a1").unwrap() }
}

fn answers() -> [(&'static str, Answer); 2] {
    [
        ("welcome", Answer::Welcome { version: Version::NEWEST, frame_bytes_max: 1 << 20 }),
        ("refused", Answer::Refused { code: Code::BUSY, text: "too much to do".to_owned() }),
    ]
}

fn told() -> [(&'static str, Told); 3] {
    let addresses = ["10.0.0.1:7651", "[::1]:7651"].map(str::to_owned);
    [
        ("acked", Told::Acked(7)),
        ("failed", Told::Failed { acked: 7, text: "the disk is full".to_owned() }),
        ("elsewhere", Told::Elsewhere(Elsewhere::new(Why::GOODBYE, addresses).unwrap())),
    ]
}

fn batch() -> Vec<u8> {
    let first = Id::new(Millis(1_763_680_200_000), Producer::new(7), 5);
    let mut marks = Marks::none();
    marks.push(1, Marks::CUT);
    let mut sides = Vec::new();
    let flags = Sides::marked(marks).encode(first.at(), &mut sides);
    Batch { first, count: 2, accepted: Millis(9), flags, sides: &sides, text: b"one\ntwo\n" }.encode()
}

fn whole<T>(step: Result<Step<T>, WireError>) -> T {
    match step.unwrap() {
        Step::Whole(found, _) => found,
        Step::Need(missing) => panic!("{missing} bytes are missing"),
    }
}

#[test]
fn what_clients_say_is_what_it_was() {
    files().check("hello", &hello(Version::NEWEST).encode());
    files().all("hello").iter().for_each(|kept| assert_eq!(whole(Hello::decode(kept)), hello(Version::NEWEST)));
    files().check("flush", &FLUSH);
    files().check("batch", &batch());
    for kept in files().all("batch") {
        let Message::Batch(frame) = whole(Message::decode(&kept, 1 << 20)) else { panic!("no batch") };
        let rows = frame.rows().unwrap();
        assert_eq!((frame.text(), rows.count, rows.marks.of(1)), (&b"one\ntwo\n"[..], 2, Marks::CUT));
    }
}

#[test]
fn what_nodes_say_is_what_it_was() {
    for (kind, said) in answers() {
        files().check(kind, &said.encode());
        let found = whole(Answer::decode(&files().all(kind).pop().unwrap()));
        assert_eq!(found, said);
    }
    for (kind, said) in told() {
        files().check(kind, &said.encode());
        files().all(kind).iter().for_each(|kept| assert_eq!(whole(Told::decode(kept)), said));
    }
}

proptest! {
    /// Of this protocol a later minor version adds what is not said to an older side. What it may say all the same are
    /// numbers that it knows more of, and what is in reserved bytes.
    #[test]
    fn what_the_next_version_adds_is_passed_over(minor in 1_u16.., code in 1_u16.., why: u8, reserved: [u8; 4]) {
        let newer = Version { major: 1, minor };
        prop_assert_eq!(whole(Hello::decode(&hello(newer).encode())), hello(newer));
        prop_assert_eq!(Version::with(newer), Ok(Version::NEWEST));
        let refused = Answer::Refused { code: Code(code), text: "why".to_owned() };
        let mut bytes = refused.encode();
        // The newest version that the other knows.
        bytes[10..12].copy_from_slice(&minor.to_le_bytes());
        prop_assert_eq!(whole(Answer::decode(&bytes)), refused);
        for (_, said) in told() {
            let mut bytes = said.encode();
            bytes[4..8].copy_from_slice(&reserved);
            prop_assert_eq!(whole(Told::decode(&bytes)), said);
        }
        let elsewhere = Elsewhere::new(Why(why), ["a:1".to_owned()]).unwrap();
        prop_assert_eq!(whole(Told::decode(&Told::Elsewhere(elsewhere.clone()).encode())), Told::Elsewhere(elsewhere));
    }
}
