//! What stores of each version say when they bring a segment, and what those of the next will.

use bucksaw_cluster::Version;
use bucksaw_ingest::handover::head;
use bucksaw_versions::{Kept, later};
use proptest::prelude::*;

use super::*;
use crate::receive::Put;

fn put() -> Put {
    Put { id: Id::new(Millis(1_763_680_200_000), Producer::new(3), 0), bytes: 70_000 }
}

fn understood(text: &[u8]) -> String {
    format!("{:?}", serde_json::from_slice::<Put>(text).unwrap())
}

#[test]
fn what_is_said_of_a_segment_is_what_it_was() {
    let files = Kept::new(env!("CARGO_MANIFEST_DIR"), Version::OWN);
    files.check("put", &head(&put()).unwrap());
    files.all("put").iter().for_each(|kept| assert_eq!(understood(&kept[4..]), format!("{:?}", put())));
}

proptest! {
    #[test]
    fn what_the_next_version_adds_is_passed_over(seed: u64) {
        let grown = later(&serde_json::to_vec(&put()).unwrap(), seed).unwrap();
        prop_assert_eq!(understood(&grown), format!("{:?}", put()));
    }
}
