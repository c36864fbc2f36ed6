//! GELF: chunks of UDP within their memory, streams of TCP, and messages, compressed or not.
#![no_main]
use bucksaw_protocols::gelf::{GelfChunks, GelfDecoder, GelfSplitter, Reassembled};
use bucksaw_protocols::{Event, EventError, EventSink};
use bucksaw_record::{Labels, Millis};
use libfuzzer_sys::fuzz_target;

struct GelfEvents;

impl EventSink for GelfEvents {
    fn push(&mut self, _: &Labels, event: &Event<'_>) -> Result<(), EventError> {
        assert!(event.attributes.iter().all(|(name, _)| !name.is_empty()));
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    let (mut decoder, mut splitter, mut chunks) =
        (GelfDecoder::new(&Labels::default(), usize::MAX), GelfSplitter::new(256), GelfChunks::new(4 << 10));
    let _ = decoder.message(data, &mut GelfEvents);
    let _ = decoder.body(data, &mut GelfEvents);
    for chunk in data.chunks(64) {
        splitter.push(chunk, &mut |message| drop(message.map(|message| decoder.message(message, &mut GelfEvents))));
        assert!(splitter.carry_bytes() <= 256);
    }
    let sender = "192.0.2.7".parse().unwrap();
    // Each 16 bytes are a header and a part; the first of them is the pause before it.
    for (datagram, number) in data.chunks(16).zip(0_u64..) {
        let Some((pause, rest)) = datagram.split_first() else { continue };
        let datagram = [b"\x1e\x0fsession", rest].concat();
        match chunks.push(sender, &datagram, Millis(number * 50 + u64::from(*pause) * 20)) {
            Ok(Reassembled::Whole(message)) => drop(decoder.message(message, &mut GelfEvents)),
            Ok(Reassembled::Joined(message)) => drop(decoder.message(&message, &mut GelfEvents)),
            Ok(Reassembled::Incomplete) | Err(_) => {}
        }
        assert!(chunks.held_bytes() <= 4 << 10);
    }
});
