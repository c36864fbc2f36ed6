//! Bodies of the HTTP Event Collector: every answer is JSON.
#![no_main]
use bucksaw_protocols::splunk_hec::{HecDecoder, HecMetadata, answer_acks, success};
use bucksaw_protocols::{Event, EventError, EventSink};
use bucksaw_record::Labels;
use libfuzzer_sys::fuzz_target;

struct HecEvents(u64);

impl EventSink for HecEvents {
    fn push(&mut self, _: &Labels, event: &Event<'_>) -> Result<(), EventError> {
        assert!(event.attributes.iter().all(|(name, _)| !name.is_empty()));
        self.0 += 1;
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    let query = String::from_utf8_lossy(&data[..data.len().min(20)]).into_owned();
    for raw in [false, true] {
        let mut decoder = HecDecoder::new(&Labels::default(), HecMetadata::from_query(&query));
        let mut events = HecEvents(0);
        let taken = if raw { decoder.raw(data, &mut events) } else { decoder.events(data, &mut events) };
        let answer = match taken {
            Ok(count) => {
                assert_eq!(count, events.0);
                success(Some(count))
            }
            Err(error) => error.answer(),
        };
        serde_json::from_str::<serde_json::Value>(&answer.body).unwrap();
    }
    serde_json::from_str::<serde_json::Value>(&answer_acks(data, |id| id < 7).body).unwrap();
});
