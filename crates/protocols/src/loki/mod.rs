//! Loki's push API: the body of `POST /loki/api/v1/push`, as protobuf or JSON.
//!
//! [`LokiDecoder`] turns a push request into events. It takes a protobuf body without the snappy block around it. The mapping is in `docs/senders/loki.md`.
//!
//! ```
//! use bucksaw_protocols::loki::LokiDecoder;
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
//! let body = br#"{"streams":[{"stream":{"app":"shop"},"values":[["1700000000000000000","paid"]]}]}"#;
//! let mut sink = Lines::default();
//! LokiDecoder::new(&Labels::default()).json(body, &mut sink).unwrap();
//! assert_eq!(sink.0, ["app=shop: paid"]);
//! ```

mod decoder;
mod error;
mod json_push;
mod proto_push;
mod selector;
mod stream;

pub use decoder::LokiDecoder;
pub use error::LokiError;

#[cfg(test)]
mod tests;
