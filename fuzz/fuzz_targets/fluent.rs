//! The forward protocol of Fluentd: framing equal for all parts of a stream, messages, and the handshake.
#![no_main]
use bucksaw_protocols::Discard;
use bucksaw_protocols::fluent::{FluentDecoder, FluentError, FluentFrame, FluentFramer, FluentHandshake};
use bucksaw_record::Labels;
use libfuzzer_sys::fuzz_target;

const MESSAGE_BYTES_MAX: usize = 1 << 10;

/// The lengths of the messages of a stream, and whether an error follows.
fn frames(stream: &[u8], part_bytes: usize) -> (Vec<usize>, bool) {
    let (mut framer, mut lengths, mut start) = (FluentFramer::new(MESSAGE_BYTES_MAX), Vec::new(), 0);
    for end in (part_bytes..stream.len()).step_by(part_bytes).chain([stream.len()]) {
        loop {
            match framer.frame(&stream[start..end]) {
                Ok(FluentFrame::Whole(length)) => {
                    assert!((1..=MESSAGE_BYTES_MAX).contains(&length));
                    lengths.push(length);
                    start += length;
                }
                Ok(FluentFrame::Missing(count)) => {
                    assert!(count > 0 && end - start + count <= MESSAGE_BYTES_MAX);
                    break;
                }
                Err(_) => return (lengths, true),
            }
        }
    }
    (lengths, false)
}

fn decode(decoder: &mut FluentDecoder, message: &[u8]) -> Result<(), FluentError> {
    let message = decoder.decode(message, 64 << 10, &mut Discard)?;
    assert_eq!(message.decoded.first_error.is_some(), message.decoded.rejected > 0);
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    let mut decoder = FluentDecoder::new(&Labels::default());
    let _ = decode(&mut decoder, data);
    let (lengths, is_refused) = frames(data, data.len().max(1));
    for part_bytes in [1, 7, 64] {
        assert_eq!(frames(data, part_bytes), (lengths.clone(), is_refused));
    }
    let mut rest = data;
    for length in lengths {
        let (message, behind) = rest.split_at(length);
        let _ = decode(&mut decoder, message);
        rest = behind;
    }
    for compressed in [&b"gzip"[..], b"zstd"] {
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes();
        let message = [&b"\x93\xa1t\xc6"[..], &length, data, b"\x81\xaacompressed\xa4", compressed].concat();
        let _ = decode(&mut decoder, &message);
    }
    let handshake = FluentHandshake::new(b"key", "host", [0; 16]);
    if let Ok(pong) = handshake.answer(data, |_| false) {
        assert!(!pong.is_accepted);
    }
});
