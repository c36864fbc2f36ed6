//! Messages of `store/put` of each version, and of the next one.

use bucksaw_cluster::ClusterVersion;
use bucksaw_fixtures::{GoldenFiles, with_unknown_fields};
use bucksaw_rpc::encode_head;
use proptest::prelude::*;

use super::*;
use crate::receive::PutRequest;

fn put() -> PutRequest {
    PutRequest { id: Id::new(Millis(1_763_680_200_000), Producer::new(3), 0), bytes: 70_000 }
}

fn decode(text: &[u8]) -> String {
    format!("{:?}", serde_json::from_slice::<PutRequest>(text).unwrap())
}

#[test]
fn put_requests_of_all_versions_are_read() {
    let files = GoldenFiles::new(env!("CARGO_MANIFEST_DIR"), ClusterVersion::OWN);
    files.check("put", &encode_head(&put()).unwrap());
    files.read_all("put").iter().for_each(|kept| assert_eq!(decode(&kept[4..]), format!("{:?}", put())));
}

proptest! {
    #[test]
    fn fields_of_later_versions_are_ignored(seed: u64) {
        let grown = with_unknown_fields(&serde_json::to_vec(&put()).unwrap(), seed).unwrap();
        prop_assert_eq!(decode(&grown), format!("{:?}", put()));
    }
}
