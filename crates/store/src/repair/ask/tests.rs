//! Questions and answers of each version, and of the next.

use bucksaw_cluster::Version;
use bucksaw_versions::{Kept, at_once, later};
use proptest::prelude::*;
use serde::de::DeserializeOwned;

use super::super::ids::tests::ids;
use super::*;

fn files() -> Kept {
    Kept::new(env!("CARGO_MANIFEST_DIR"), Version::OWN)
}

fn set() -> Vec<u8> {
    let mut set = ids(&[(1, 5), (1, 9), (7, 0), (7, u32::MAX)]);
    set.add(super::super::ids::tests::id(9, 100), 5_000);
    set.encode()
}

fn question() -> Question {
    Question { from_ms: 5, to_ms: 1_763_680_200_000, set: Sealed::of(&set()) }
}

fn told() -> Told {
    Told { set: Sealed::of(&set()), keeps: Keeps { age_ms: Some(86_400_000), since_ms: 7 } }
}

fn read<T: DeserializeOwned>(message: &[u8]) -> (T, Vec<u8>) {
    let (found, mut rest) = at_once(read_head::<T>(Body::whole(message.to_vec()))).unwrap();
    (found, at_once(rest.some(u64::MAX)).unwrap().unwrap().to_vec())
}

fn check<T: Serialize + DeserializeOwned + std::fmt::Debug>(kind: &str, said: &T) {
    let body = at_once(whole(said, &set()).unwrap().read_all(1 << 20)).unwrap();
    files().check(kind, &body);
    for kept in files().all(kind) {
        let (found, rest) = read::<T>(&kept);
        assert_eq!(format!("{found:?}"), format!("{said:?}"));
        assert_eq!(Ids::decode(&rest), Ids::decode(&set()));
    }
}

#[test]
fn questions_and_answers_are_what_they_were() {
    check("ids-question", &question());
    check("ids-answer", &told());
}

proptest! {
    #[test]
    fn what_the_next_version_adds_is_passed_over(seed: u64) {
        let grown = |said: &[u8]| serde_json::from_slice::<Question>(&later(said, seed).unwrap()).unwrap();
        let said = serde_json::to_vec(&question()).unwrap();
        prop_assert_eq!(format!("{:?}", grown(&said)), format!("{:?}", question()));
        let said = later(&serde_json::to_vec(&told()).unwrap(), seed).unwrap();
        let found: Told = serde_json::from_slice(&said).unwrap();
        prop_assert_eq!(format!("{found:?}"), format!("{:?}", told()));
    }
}
