//! Decoders for the protocols of other log systems: from the bytes of a body, message or datagram to records. No I/O.
//!
//! A decoder reads bytes and passes an [`Event`] to an [`EventSink`] for each record in them. Nothing that the sender
//! states about a record is lost: the line, the time, the labels of its stream, and everything else as attributes. The
//! mapping of each protocol is documented in `docs/senders/`.
//!
//! Decoders allocate at most in proportion to their input, and refuse bad input with an error; they never panic.
#![deny(clippy::indexing_slicing)]

mod attribute_list;
pub mod bucksaw_v1;
pub mod container;
pub mod datadog;
mod decoded;
pub mod elasticsearch;
mod event;
#[cfg(test)]
mod event_lines;
pub mod fluent;
pub mod gelf;
mod http_answer;
mod inflate;
pub mod journald;
pub mod json;
mod json_members;
mod json_text;
pub mod kafka;
pub mod loki;
pub mod otlp;
mod protobuf;
mod query_pairs;
pub mod splunk_hec;
mod stream_labels;
pub mod syslog;

pub use attribute_list::AttributeList;
pub use decoded::Decoded;
pub use event::{Discard, Event, EventError, EventSink};
pub use http_answer::HttpAnswer;
pub use inflate::InflateError;
pub use protobuf::ProtobufError;
