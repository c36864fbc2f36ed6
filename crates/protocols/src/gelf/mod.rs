//! GELF, the format of Graylog: JSON messages over UDP in chunks, over TCP with a NUL behind each, or over HTTP.
//!
//! [`GelfChunks`] puts the chunks of datagrams together, [`GelfSplitter`] finds the messages in a byte stream, and
//! [`GelfDecoder`] turns messages into events. Time is passed in, so all of it is a pure state machine. The mapping is in
//! `docs/senders/gelf.md`.
//!
//! ```
//! use bucksaw_protocols::gelf::{GelfChunks, GelfDecoder, Reassembled};
//! use bucksaw_protocols::{Event, EventError, EventSink};
//! use bucksaw_record::{Labels, Millis};
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
//! let (mut chunks, mut sink) = (GelfChunks::new(1 << 20), Lines::default());
//! let mut decoder = GelfDecoder::new(&Labels::default(), 1 << 20);
//! let sender = "192.0.2.7".parse().unwrap();
//! let datagrams = [&b"\x1e\x0fabcdefgh\x01\x02\"short_message\":\"hello\"}"[..], b"\x1e\x0fabcdefgh\x00\x02{\"host\":\"web1\","];
//! for datagram in datagrams {
//!     match chunks.push(sender, datagram, Millis(1_700_000_000_000)).unwrap() {
//!         Reassembled::Whole(message) => decoder.message(message, &mut sink).unwrap(),
//!         Reassembled::Joined(message) => decoder.message(&message, &mut sink).unwrap(),
//!         Reassembled::Incomplete => {}
//!     }
//! }
//! assert_eq!(sink.0, ["host.name=web1: hello"]);
//! ```

mod chunks;
mod decoder;
mod error;
mod splitter;

pub use chunks::{ChunkError, GelfChunks, Reassembled};
pub use decoder::GelfDecoder;
pub use error::GelfError;
pub use splitter::{FoundMessage, GelfSplitter};

#[cfg(test)]
mod tests;
