//! The datagrams between nodes.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = bucksaw_cluster::is_packet(data);
    // The version and the kind are right: on to what is behind them.
    for kind in [1, 2] {
        let _ = bucksaw_cluster::is_packet(&[&[1, kind], data].concat());
    }
});
