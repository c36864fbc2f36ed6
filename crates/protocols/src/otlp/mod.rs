//! OTLP logs: the body of `POST /v1/logs` and the message of the gRPC method `LogsService/Export`, as protobuf or JSON.
//!
//! [`OtlpDecoder`] turns an `ExportLogsServiceRequest` into events. [`ExportAnswer`] and [`OtlpStatus`] encode the
//! answer. The mapping is in `docs/senders/otlp.md`.
//!
//! ```
//! use bucksaw_protocols::otlp::{ExportAnswer, OtlpDecoder};
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
//! let body = br#"{"resourceLogs":[{
//!     "resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},
//!     "scopeLogs":[{"logRecords":[{"timeUnixNano":"1700000000000000000","body":{"stringValue":"paid"}}]}]}]}"#;
//! let mut sink = Lines::default();
//! let decoded = OtlpDecoder::new(&Labels::default()).json(body, &mut sink).unwrap();
//! assert_eq!(sink.0, ["service.name=shop: paid"]);
//! assert_eq!(ExportAnswer(&decoded).json(), b"{}");
//! ```

mod answer;
mod decoder;
mod error;
mod json_parts;
mod json_request;
mod json_value;
mod log_record;
mod proto_request;
mod proto_value;
mod severity;

pub use answer::{ExportAnswer, OtlpStatus};
pub use decoder::OtlpDecoder;
pub use error::OtlpError;

/// The depth to which values contain values. A deeper value is refused, as its decoding would exhaust the stack.
const NESTING_MAX: u32 = 32;

#[cfg(test)]
mod tests;
