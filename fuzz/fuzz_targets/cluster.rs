//! Input of the cluster port: datagrams, hellos, handshakes and encrypted frames.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| bucksaw_env::real::fuzz_input(data));
