//! The framed protocol, both directions.
#![no_main]
use bucksaw_wire::{Answer, Hello, Message, Step, Told};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = Hello::decode(data);
    let _ = Answer::decode(data);
    if let Ok(Step::Whole(told @ Told::Elsewhere(_), used)) = Told::decode(data) {
        // What was understood is said again in the same words.
        let again = told.encode();
        assert_eq!(again.len(), used);
        assert_eq!(Told::decode(&again), Ok(Step::Whole(told, used)));
    }
    let _ = Message::missing(data, 1 << 16);
    let _ = Message::decode(data, 1 << 16);
});
