//! The framed protocol in both directions.
#![no_main]
use bucksaw_wire::{ClientMessage, DecodeProgress, Hello, HelloReply, ServerMessage};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = Hello::decode(data);
    let _ = HelloReply::decode(data);
    if let Ok(DecodeProgress::Complete(message @ ServerMessage::Redirect(_), used)) = ServerMessage::decode(data) {
        let encoded = message.encode();
        assert_eq!(encoded.len(), used);
        assert_eq!(ServerMessage::decode(&encoded), Ok(DecodeProgress::Complete(message, used)));
    }
    let _ = ClientMessage::missing_bytes(data, 1 << 16);
    let _ = ClientMessage::decode(data, 1 << 16);
});
