//! Headers of HTTP requests that the program reads itself: credentials, cookies, tenant, host and origin, encodings, durations.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| bucksaw_api::fuzz_headers(data));
