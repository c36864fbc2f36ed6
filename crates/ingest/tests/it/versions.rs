//! The messages of each version that wrote other ones than before, and those that the next will write.

use std::fmt::Debug;

use bucksaw_cluster::Version;
use bucksaw_doors::Body;
use bucksaw_ingest::handover::{
    Settle, Take, Taken, TakenSegment, Wait, Waits, head, message, read_head, read_message,
};
use bucksaw_record::{Id, Millis, Producer};
use bucksaw_versions::{Kept, at_once, later};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

fn files() -> Kept {
    Kept::new(env!("CARGO_MANIFEST_DIR"), Version::OWN)
}

fn id(number: u64) -> Id {
    Id::new(Millis(1_763_680_200_000 + number), Producer::new(number), 0)
}

fn wait() -> Wait {
    Wait { text_bytes: 1 << 24, age_ms: 4_000, wait_ms: 5_000 }
}

fn waits() -> Waits {
    Waits { due: true, segments: 3, text_bytes: 1 << 20, oldest_ms: 900, awaited: true, full: true }
}

fn take() -> Take {
    Take { holder: id(1), text_bytes: 1 << 24, lease_ms: 60_000 }
}

fn taken() -> Taken {
    let segment = |number, bytes, text_bytes| TakenSegment { id: id(number), bytes, text_bytes };
    Taken { segments: vec![segment(2, 1_032, 900), segment(3, 32, 0)], waits: waits() }
}

fn settle() -> Settle {
    Settle { holder: id(1), stored: vec![id(2)], returned: vec![id(3), id(4)], unreadable: vec![id(4)] }
}

fn bytes(said: &impl Serialize) -> Vec<u8> {
    at_once(message(said).unwrap().read_all(1 << 20)).unwrap()
}

fn understood<T: DeserializeOwned>(bytes: &[u8]) -> T {
    at_once(read_message(Body::whole(bytes.to_vec()))).unwrap()
}

/// None of these can be compared, but shown.
fn same(one: &impl Debug, other: &impl Debug) {
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}

fn check<T: Serialize + DeserializeOwned + Debug>(kind: &str, said: &T) {
    files().check(kind, &bytes(said));
    files().all(kind).iter().for_each(|kept| same(&understood::<T>(kept), said));
}

fn grows<T: Serialize + DeserializeOwned + Debug>(said: &T, seed: u64) {
    same(&understood::<T>(&later(&bytes(said), seed).unwrap()), said);
}

#[test]
fn messages_are_what_they_were() {
    check("wait", &wait());
    check("waits", &waits());
    check("take", &take());
    check("taken", &taken());
    check("settle", &settle());
}

#[test]
fn a_message_stands_before_a_body_as_it_did() {
    let body = [&head(&take()).unwrap()[..], b"and the rest"].concat();
    files().check("head", &body);
    for kept in files().all("head") {
        let (found, mut rest) = at_once(read_head::<Take>(Body::whole(kept))).unwrap();
        same(&found, &take());
        assert_eq!(at_once(rest.some(100)).unwrap().unwrap(), &b"and the rest"[..]);
    }
}

proptest! {
    #[test]
    fn what_the_next_version_adds_is_passed_over(seed: u64) {
        grows(&wait(), seed);
        grows(&waits(), seed);
        grows(&take(), seed);
        grows(&taken(), seed);
        grows(&settle(), seed);
    }
}
