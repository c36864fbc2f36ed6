//! JSON bodies, with and without a message field.
#![no_main]
use bucksaw_protocols::Discard;
use bucksaw_protocols::json::{JsonDecoder, JsonNames};
use bucksaw_record::Labels;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for message in ["", "m,a.b"] {
        let mut decoder = JsonDecoder::new(JsonNames::new("", message, "l,c.d"), &Labels::default());
        let _ = decoder.body(data, &mut Discard);
    }
});
