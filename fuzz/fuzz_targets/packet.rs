//! Gossip datagrams between nodes.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = bucksaw_cluster::is_packet(data);
    // A valid version and kind let the fuzzer reach the fields behind them.
    for kind in [1, 2] {
        let _ = bucksaw_cluster::is_packet(&[&[1, kind], data].concat());
    }
});
