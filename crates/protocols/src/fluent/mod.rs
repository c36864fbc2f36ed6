//! The forward protocol of Fluentd, version 1, which Fluent Bit, Docker and the logger libraries of many languages speak.
//!
//! [`FluentFramer`] finds the messages of a connection, [`FluentDecoder`] turns messages into events and gives the
//! acknowledgement that the sender waits for, and [`FluentHandshake`] checks a shared key. The mapping is in
//! `docs/senders/fluentd.md`.
//!
//! ```text
//!   nil                                    heartbeat
//!   [tag, time, record, options?]          one event
//!   [tag, [[time, record]…], options?]     several
//!   [tag, "…", options?]                   several, one after the other in a string, maybe compressed
//! ```
//! ```
//! use bucksaw_protocols::fluent::{FluentDecoder, FluentFrame, FluentFramer};
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
//! let (mut framer, mut decoder, mut sink) = (FluentFramer::new(16 << 20), FluentDecoder::new(&Labels::default()), Lines::default());
//! let mut buffer = b"\x93\xa4shop\xce\x65\x53\xf1\x00\x81\xa3log\xa4pa".to_vec();
//! assert_eq!(framer.frame(&buffer).unwrap(), FluentFrame::Missing(2));
//! buffer.extend_from_slice(b"id\xc0");
//! while let FluentFrame::Whole(length) = framer.frame(&buffer).unwrap() {
//!     let message = decoder.decode(&buffer[..length], 64 << 20, &mut sink).unwrap();
//!     assert_eq!(message.ack, None);
//!     buffer.drain(..length);
//! }
//! assert_eq!(sink.0, ["tag=shop: paid"]);
//! ```

mod decoder;
mod entries;
mod error;
mod framer;
mod handshake;
mod head;
mod json;
mod layout;
mod option;
mod reader;
mod record;
mod scanner;
mod time;

pub use decoder::{FluentDecoder, FluentMessage};
pub use error::{FluentError, MsgpackError};
pub use framer::{FluentFrame, FluentFramer};
pub use handshake::{FluentHandshake, FluentPong, FluentUser};

use head::MsgpackHead;
use reader::{MsgpackReader, MsgpackValue};

/// The maximum number of arrays and maps around each other in a message: the message, its entries, an entry, and 32 in a
/// record.
const MESSAGE_DEPTH_MAX: usize = 35;

#[cfg(test)]
mod tests;
