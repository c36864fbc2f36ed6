//! Push requests of Loki: the same bytes as protobuf and as JSON.
#![no_main]
use bucksaw_protocols::Discard;
use bucksaw_protocols::loki::LokiDecoder;
use bucksaw_record::Labels;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut decoder = LokiDecoder::new(&Labels::default());
    let _ = decoder.protobuf(data, &mut Discard);
    let _ = decoder.json(data, &mut Discard);
});
