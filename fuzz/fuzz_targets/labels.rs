//! Labels as typed and as encoded: what is accepted comes back the same.
#![no_main]
use bucksaw_record::Labels;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let again = |labels: &Labels| {
        let mut bytes = Vec::new();
        labels.encode(&mut bytes);
        assert_eq!(Labels::decode(&bytes).as_ref(), Ok(labels));
    };
    if let Ok(labels) = Labels::decode(data) {
        again(&labels);
    }
    if let Some(labels) = str::from_utf8(data).ok().and_then(|text| Labels::parse(text).ok()) {
        again(&labels);
    }
});
