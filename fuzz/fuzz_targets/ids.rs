//! Sets of ids as another store sends them: any bytes are a set or are refused, and a set comes back as it was.
#![no_main]
use bucksaw_store::repair::Ids;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some(ids) = Ids::decode(data) else { return };
    let bytes = ids.clone().encode();
    assert_eq!(Ids::decode(&bytes), Some(ids));
});
