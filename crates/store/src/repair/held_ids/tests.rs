//! Questions and answers of each version, and of the next.

use bucksaw_cluster::ClusterVersion;
use bucksaw_fixtures::{GoldenFiles, expect_ready, with_unknown_fields};
use proptest::prelude::*;
use serde::de::DeserializeOwned;

use super::super::id_set::tests::ids;
use super::*;

fn fixtures() -> GoldenFiles {
    GoldenFiles::new(env!("CARGO_MANIFEST_DIR"), ClusterVersion::OWN)
}

fn set() -> Vec<u8> {
    let mut set = ids(&[(1, 5), (1, 9), (7, 0), (7, u32::MAX)]);
    set.add(super::super::id_set::tests::id(9, 100), 5_000);
    set.encode()
}

fn request() -> HeldIdsRequest {
    HeldIdsRequest { from_ms: 5, to_ms: 1_763_680_200_000, set: IdSetChecksum::of(&set()) }
}

fn reply() -> HeldIdsReply {
    HeldIdsReply {
        set: IdSetChecksum::of(&set()),
        retention: RetentionBounds { age_ms: Some(86_400_000), since_ms: 7 },
    }
}

fn read<T: DeserializeOwned>(message: &[u8]) -> (T, Vec<u8>) {
    let (found, mut rest) = expect_ready(read_head::<T>(Body::whole(message.to_vec()))).unwrap();
    (found, expect_ready(rest.next_chunk(u64::MAX)).unwrap().unwrap().to_vec())
}

fn check<T: Serialize + DeserializeOwned + std::fmt::Debug>(kind: &str, said: &T) {
    let body = expect_ready(message_with_set(said, &set()).unwrap().read_all(1 << 20)).unwrap();
    fixtures().check(kind, &body);
    for kept in fixtures().read_all(kind) {
        let (found, rest) = read::<T>(&kept);
        assert_eq!(format!("{found:?}"), format!("{said:?}"));
        assert_eq!(IdSet::decode(&rest), IdSet::decode(&set()));
    }
}

#[test]
fn messages_of_all_versions_are_read() {
    check("held-ids-request", &request());
    check("held-ids-reply", &reply());
}

proptest! {
    #[test]
    fn fields_of_later_versions_are_ignored(seed: u64) {
        let grown = |said: &[u8]| serde_json::from_slice::<HeldIdsRequest>(&with_unknown_fields(said, seed).unwrap()).unwrap();
        let said = serde_json::to_vec(&request()).unwrap();
        prop_assert_eq!(format!("{:?}", grown(&said)), format!("{:?}", request()));
        let said = with_unknown_fields(&serde_json::to_vec(&reply()).unwrap(), seed).unwrap();
        let found: HeldIdsReply = serde_json::from_slice(&said).unwrap();
        prop_assert_eq!(format!("{found:?}"), format!("{:?}", reply()));
    }
}
