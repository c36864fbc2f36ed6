//! What comes at the port for other nodes: datagrams, greetings, handshakes, sealed frames.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| bucksaw_env::real::take_nonsense(data));
