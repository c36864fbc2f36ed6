//! The framed protocol, both directions.
#![no_main]
use bucksaw_wire::{Answer, Hello, Message, Step, Told};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = Hello::decode(data);
    let _ = Answer::decode(data);
    match Told::decode(data) {
        // What was understood is said again in the same words. A text for people may be changed to be printed.
        Ok(Step::Whole(told @ (Told::Acked(_) | Told::Elsewhere(_)), used)) => {
            let again = told.encode();
            assert_eq!(again.len(), used);
            assert_eq!(Told::decode(&again), Ok(Step::Whole(told, used)));
        }
        told => drop(told),
    }
    let _ = Message::missing(data, 1 << 16);
    let _ = Message::decode(data, 1 << 16);
});
