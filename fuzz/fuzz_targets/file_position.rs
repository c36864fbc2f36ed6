//! Positions of followed files: an accepted position encodes to bytes that decode to the same position.
#![no_main]
use bucksaw_tailer::FilePosition;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(position) = FilePosition::decode(data) else { return };
    let mut bytes = Vec::new();
    position.encode(&mut bytes);
    assert_eq!(FilePosition::decode(&bytes), Ok(position));
});
