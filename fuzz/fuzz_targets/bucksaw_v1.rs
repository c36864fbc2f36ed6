//! Messages of the service for gRPC: what a batch head accepts is decoded whole.
#![no_main]
use bucksaw_protocols::Discard;
use bucksaw_protocols::bucksaw_v1::{BatchHead, SearchRequest, decode_records};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = SearchRequest::read(data);
    if let Ok(head) = BatchHead::read(data) {
        let decoded = decode_records(data, &head.labels, &mut Discard).unwrap();
        assert_eq!(decoded.accepted + decoded.rejected, head.records);
    }
});
