//! Requests and replies between nodes.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    bucksaw_query::decode_all_formats(data);
});
