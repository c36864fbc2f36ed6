//! Syslog streams: chunks make no difference, memory is bounded, and the line of each message is its end.
#![no_main]
use bucksaw_protocols::syslog::{SyslogArrival, SyslogDecoder, SyslogSplitter};
use bucksaw_protocols::{Event, EventError, EventSink};
use bucksaw_record::{Labels, Millis, time};
use libfuzzer_sys::fuzz_target;

#[derive(Default)]
struct SyslogLines(Vec<Vec<u8>>);

impl EventSink for SyslogLines {
    fn push(&mut self, labels: &Labels, event: &Event<'_>) -> Result<(), EventError> {
        assert!(labels.iter().count() <= Labels::COUNT_MAX);
        assert!(event.attributes.iter().all(|(name, _)| !name.is_empty()));
        self.0.push(event.line.to_vec());
        Ok(())
    }
}

fn decode(chunks: &[&[u8]]) -> SyslogLines {
    let mut decoder = SyslogDecoder::new(time::TimeZone::UTC, &Labels::default());
    let arrival = SyslogArrival { now: Millis(1_700_000_000_000), sender: "192.0.2.7" };
    let (mut splitter, mut lines) = (SyslogSplitter::new(256), SyslogLines::default());
    let mut frame = |frame: bucksaw_protocols::syslog::SyslogFrame<'_>| {
        let before = lines.0.len();
        decoder.frame(&frame, &arrival, &mut lines).unwrap();
        if let Some(line) = lines.0.get(before) {
            let end = frame.bytes.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r' | b'\0'));
            let message = &frame.bytes[..end.map_or(0, |last| last + 1)];
            assert!(frame.bytes.ends_with(line) || message.ends_with(line), "{}", frame.bytes.escape_ascii());
        }
    };
    for chunk in chunks {
        splitter.push(chunk, &mut frame);
        assert!(splitter.carry_bytes() <= 256);
    }
    splitter.finish(&mut frame);
    lines
}

fuzz_target!(|data: &[u8]| {
    let Some((cut, stream)) = data.split_first() else { return };
    let whole = decode(&[stream]);
    let cut = decode(&stream.chunks(usize::from(*cut) + 1).collect::<Vec<_>>());
    assert_eq!(whole.0, cut.0);
});
