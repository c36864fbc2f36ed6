//! Bulk bodies: each operation has an item, and each taken document is valid JSON and a line of the body. Paths: an answer is
//! JSON or empty.
#![no_main]
use bucksaw_protocols::elasticsearch::{BulkDecoder, ElasticRequest, route};
use bucksaw_protocols::{Event, EventError, EventSink};
use bucksaw_record::Labels;
use libfuzzer_sys::fuzz_target;

#[derive(Default)]
struct BulkDocuments(Vec<Vec<u8>>);

impl EventSink for BulkDocuments {
    fn push(&mut self, _: &Labels, event: &Event<'_>) -> Result<(), EventError> {
        self.0.push(event.line.to_vec());
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    let mut documents = BulkDocuments::default();
    if let Ok(reply) = BulkDecoder::new(&Labels::default()).decode(data, "logs", &mut documents) {
        let body: serde_json::Value = serde_json::from_slice(&reply.body(1)).unwrap();
        assert_eq!(body["items"].as_array().unwrap().len() as u64, reply.accepted() + reply.refused());
        assert_eq!(documents.0.len() as u64, reply.accepted());
        for document in documents.0 {
            assert!(document.trim_ascii().starts_with(b"{"));
            let line = |line: &[u8]| line.strip_suffix(b"\r").unwrap_or(line) == document;
            assert!(data.split(|byte| *byte == b'\n').any(line));
        }
    } else {
        assert!(documents.0.is_empty());
    }
    if let Ok(text) = str::from_utf8(data) {
        let (method, path) = text.split_once(' ').unwrap_or(("GET", text));
        if let ElasticRequest::Answer(answer) = route(method, path) {
            assert!(answer.body.is_empty() || serde_json::from_str::<serde_json::Value>(&answer.body).is_ok());
        }
    }
});
