//! JSON over HTTP: an array of objects, one object, or objects one after the other, as in NDJSON.
//!
//! [`JsonDecoder`] turns each object into an event. [`JsonNames`] states which members have the time, the message and the
//! labels. The mapping is in `docs/senders/json.md`.
//!
//! ```
//! use bucksaw_protocols::json::{JsonDecoder, JsonNames};
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
//! let names = JsonNames::new("", "msg", "app.name");
//! let body = br#"[{"time":"2026-11-20T23:10:00Z","app":{"name":"shop"},"msg":"paid"}]"#;
//! let mut sink = Lines::default();
//! JsonDecoder::new(names, &Labels::default()).body(body, &mut sink).unwrap();
//! assert_eq!(sink.0, ["app.name=shop: paid"]);
//! ```

mod decoder;
mod names;
mod objects;

pub(crate) use decoder::JsonObject;
pub use decoder::{JsonBodyError, JsonDecoder};
pub use names::JsonNames;

#[cfg(test)]
mod tests;
