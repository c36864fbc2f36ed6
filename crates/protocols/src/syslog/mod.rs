//! Syslog: RFC 5424, RFC 3164 and what real senders make of it, over UDP, TCP and Unix sockets.
//!
//! [`SyslogDecoder`] turns one message into one event. [`SyslogSplitter`] finds the messages in a byte stream; a datagram is
//! one message as it is. No message is refused for its form: what no header is recognised in becomes the line. The mapping
//! is in `docs/senders/syslog.md`.
//!
//! The parser is our own. `syslog_loose`, the maintained one, takes only UTF-8, allocates for each message, and has no
//! rule for the headers of Cisco, AIX and local sockets; messages are split into slices here.
//!
//! ```
//! use bucksaw_protocols::syslog::{SyslogArrival, SyslogDecoder, SyslogSplitter};
//! use bucksaw_protocols::{Event, EventError, EventSink};
//! use bucksaw_record::{Labels, Millis, time};
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
//! let mut decoder = SyslogDecoder::new(time::parse_zone("UTC").unwrap(), &Labels::default());
//! let mut splitter = SyslogSplitter::new(1 << 20);
//! let (mut sink, arrival) = (Lines::default(), SyslogArrival { now: Millis(1_700_000_000_000), sender: "10.0.0.7" });
//! for chunk in ["<34>Nov 14 22:13:20 web1 su[7]: 'su ro", "ot' failed\n27 <13>1 - web2 shop - - - two"] {
//!     splitter.push(chunk.as_bytes(), &mut |frame| decoder.frame(&frame, &arrival, &mut sink).unwrap());
//! }
//! assert_eq!(sink.0, ["host.name=web1,service.name=su: 'su root' failed", "host.name=web2,service.name=shop: two"]);
//! ```

mod cisco;
mod decoder;
mod header;
mod priority;
mod rfc3164;
mod rfc5424;
mod splitter;
mod stated_time;
mod structured_data;
mod tag;

pub use decoder::{SyslogArrival, SyslogDecoder};
pub(crate) use priority::severity_name;
pub use splitter::{SyslogFrame, SyslogSplitter};

#[cfg(test)]
mod tests;
