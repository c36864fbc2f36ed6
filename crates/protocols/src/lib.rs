//! The protocols of other log systems as bytes: what a sender means by a body, message or datagram. No I/O.
//!
//! A decoder gets bytes and gives an [`Event`] to an [`EventSink`] for each record in them. What the sender states of a
//! record is kept: the line, the time, the labels of its stream, and everything else as attributes. The mapping of each
//! protocol is documented in `docs/senders/`.
//!
//! Decoders bound what they allocate by what they are given, and refuse bad input with an error; they never panic.
#![deny(clippy::indexing_slicing)]

mod attribute_list;
pub mod datadog;
mod decoded;
pub mod elasticsearch;
mod event;
#[cfg(test)]
mod event_lines;
pub mod fluent;
pub mod gelf;
mod inflate;
pub mod journald;
pub mod json;
mod json_members;
mod json_text;
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
pub use inflate::InflateError;
pub use protobuf::ProtobufError;
