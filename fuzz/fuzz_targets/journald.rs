//! Streams of journal entries: any pieces give what the whole stream gives, in bounded memory.
#![no_main]
use bucksaw_protocols::Discard;
use bucksaw_protocols::journald::JournalDecoder;
use bucksaw_record::Labels;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let size = usize::from(data.first().copied().unwrap_or_default()) + 1;
    let mut decoder = JournalDecoder::new(1_000, &Labels::default());
    for part in data.chunks(size) {
        if decoder.push(part, &mut Discard).is_err() {
            return;
        }
        assert!(decoder.held_bytes() < 8_000);
    }
    let _ = decoder.finish(&mut Discard);
});
