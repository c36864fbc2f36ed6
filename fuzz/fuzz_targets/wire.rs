//! The framed protocol, both directions.
#![no_main]
use bucksaw_wire::{Answer, Hello, Message, Told};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = Hello::decode(data);
    let _ = Answer::decode(data);
    let _ = Told::decode(data);
    let _ = Message::missing(data, 1 << 16);
    let _ = Message::decode(data, 1 << 16);
});
