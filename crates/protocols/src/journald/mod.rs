//! The journal export format of systemd, which `systemd-journal-upload` sends to `/upload`.
//!
//! [`JournalDecoder`] gets the bytes of a body or stream in any pieces. The mapping is in `docs/senders/journald.md`.
//!
//! ```text
//!   MESSAGE=paid␊                  a field whose value has no LF
//!   MESSAGE␊ 8-byte length ␊       a field of any bytes: a little-endian length, the value, an LF
//!   ␊                              the end of an entry
//! ```
//! ```
//! use bucksaw_protocols::journald::JournalDecoder;
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
//! let mut sink = Lines::default();
//! let mut decoder = JournalDecoder::new(1 << 20, &Labels::default());
//! decoder.push(b"__REALTIME_TIMESTAMP=1700000000000000\nMESSAGE=pa", &mut sink).unwrap();
//! decoder.push(b"id\n_HOSTNAME=web1\n\n", &mut sink).unwrap();
//! decoder.finish(&mut sink).unwrap();
//! assert_eq!(sink.0, ["host.name=web1: paid"]);
//! ```

mod decoder;
mod entry;
mod fields;

pub use decoder::{JournalDecoder, JournalError};

#[cfg(test)]
mod tests;
