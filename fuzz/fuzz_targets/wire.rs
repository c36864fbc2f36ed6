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
    if let Ok(DecodeProgress::Complete(ClientMessage::Report(report), _)) = ClientMessage::decode(data, 1 << 16) {
        // Replaced bytes may have made a text longer than its limit, so only the shortened report is stable.
        let encoded = report.encode();
        let Ok(DecodeProgress::Complete(ClientMessage::Report(again), used)) = ClientMessage::decode(&encoded, 0) else {
            panic!("a report cannot be read back");
        };
        assert_eq!((again.encode(), used), (encoded.clone(), encoded.len()));
    }
});
