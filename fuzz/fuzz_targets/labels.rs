//! Labels as typed and as encoded: accepted labels round-trip.
#![no_main]
use bucksaw_record::Labels;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let check = |labels: &Labels| {
        let mut bytes = Vec::new();
        labels.encode(&mut bytes);
        assert_eq!(Labels::decode(&bytes).as_ref(), Ok(labels));
    };
    if let Ok(labels) = Labels::decode(data) {
        check(&labels);
    }
    if let Some(labels) = str::from_utf8(data).ok().and_then(|text| Labels::parse(text).ok()) {
        check(&labels);
    }
});
