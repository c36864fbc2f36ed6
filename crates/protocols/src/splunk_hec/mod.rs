//! The HTTP Event Collector of Splunk: events in JSON, raw text, health and acknowledgements.
//!
//! [`route`] classifies a request, [`HecDecoder`] turns a body into events; [`success`] and [`HecError::answer`] are the
//! answers, with the codes of Splunk's own table. The mapping is in `docs/senders/splunk-hec.md`.
//!
//! ```
//! use bucksaw_protocols::splunk_hec::{HecDecoder, HecMetadata, success};
//! use bucksaw_protocols::{Event, EventError, EventSink};
//! use bucksaw_record::Labels;
//!
//! #[derive(Default)]
//! struct Lines(Vec<String>);
//! impl EventSink for Lines {
//!     fn push(&mut self, labels: &Labels, event: &Event<'_>) -> Result<(), EventError> {
//!         self.0.push(format!("{labels}: {}", String::from_utf8_lossy(event.line)));
//!         Ok(())
//!     }
//! }
//!
//! let mut decoder = HecDecoder::new(&Labels::default(), HecMetadata::from_query("host=web1"));
//! let mut sink = Lines::default();
//! let body = br#"{"event":"one","sourcetype":"shop"}{"event":{"a": 1}}"#;
//! let answer = match decoder.events(body, &mut sink) {
//!     Ok(_) => success(None),
//!     Err(error) => error.answer(),
//! };
//! assert_eq!(sink.0, ["host.name=web1,sourcetype=shop: one", r#"host.name=web1: {"a": 1}"#]);
//! assert_eq!(answer.body, r#"{"text":"Success","code":0}"#);
//! ```

mod acks;
mod answers;
mod code;
mod decoder;
mod metadata;

pub use acks::answer_acks;
pub use answers::{HecRequest, route, success};
pub use code::HecCode;
pub use decoder::{HecDecoder, HecError};
pub use metadata::HecMetadata;

#[cfg(test)]
mod tests;
