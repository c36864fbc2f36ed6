//! What nodes ask and answer each other.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    bucksaw_query::read_anything(data);
});
