//! Bodies of Datadog's logs API: a body is taken if and only if it is JSON with objects, and every answer is JSON.
#![no_main]
use bucksaw_protocols::datadog::{DatadogDecoder, DatadogDefaults};
use bucksaw_protocols::{Event, EventError, EventSink};
use bucksaw_record::Labels;
use libfuzzer_sys::fuzz_target;

struct DatadogEvents(u64);

impl EventSink for DatadogEvents {
    fn push(&mut self, _: &Labels, event: &Event<'_>) -> Result<(), EventError> {
        assert!(event.attributes.iter().all(|(name, _)| !name.is_empty()));
        self.0 += 1;
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    let mut events = DatadogEvents(0);
    let taken = DatadogDecoder::new(&Labels::default(), DatadogDefaults::default()).logs(data, &mut events);
    match &taken {
        Ok(count) => assert_eq!(*count, events.0),
        Err(error) => {
            serde_json::from_str::<serde_json::Value>(&error.answer().body).unwrap();
        }
    }
    let parsed = serde_json::from_slice::<serde_json::Value>(data);
    if let Ok(serde_json::Value::Object(_)) = parsed {
        assert_eq!(taken.unwrap(), 1);
    }
});
