//! Id sets from other stores: an accepted set encodes to bytes that decode to the same set.
#![no_main]
use bucksaw_store::repair::IdSet;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some(ids) = IdSet::decode(data) else { return };
    let bytes = ids.clone().encode();
    assert_eq!(IdSet::decode(&bytes), Some(ids));
});
