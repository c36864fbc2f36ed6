//! Protocols of other log systems over TCP, UDP and Unix datagram sockets.
//!
//! ```text
//!   TCP       chunk ────► StreamDecoder ───┐
//!                                          ├─► EventRecords ─► queue
//!   datagram  message ──► DatagramDecoder ─┘
//! ```
//! These protocols have no acknowledgements. What the queue refuses is kept and appended again, and meanwhile nothing is read:
//! a TCP sender waits, and the kernel drops datagrams, which is counted.

mod connection;
mod datagram_socket;
mod datagrams;
mod gelf;
mod kernel_drops;
mod syslog;

use std::net::SocketAddr;

use bucksaw_ingest::Source;
use bucksaw_record::Millis;

use crate::config::Config;
use crate::endpoint::EndpointProtocol;
use crate::intake::{EventRecords, EventTarget, IdAssignment};
use crate::listener_state::ListenerState;

pub(crate) use connection::run;
pub use datagram_socket::DatagramSocket;
pub use datagrams::serve_datagrams;

/// Decodes the bytes of one connection.
trait StreamDecoder: Send {
    /// Decodes the next bytes.
    fn push(&mut self, chunk: &[u8], now: Millis, records: &mut EventRecords);

    /// Ends the stream, or an unfinished message for which there is no memory.
    fn finish(&mut self, now: Millis, records: &mut EventRecords);

    /// Frees what is needed only while there is something to decode.
    fn release_memory(&mut self);

    /// Bytes that are held for an unfinished message after [`Self::release_memory`].
    fn carry_bytes(&self) -> usize;
}

/// Decodes the datagrams of one listener.
trait DatagramDecoder: Send {
    /// Decodes a datagram; a Unix socket has no address of its sender.
    fn push(&mut self, datagram: &[u8], sender: Option<SocketAddr>, now: Millis, records: &mut EventRecords);

    /// Frees what is needed only while there is something to decode.
    fn release_memory(&mut self);

    /// The number of messages in several datagrams that were dropped so far.
    fn dropped(&self) -> u64 {
        0
    }
}

impl EndpointProtocol {
    /// Where its records come in; `None` for protocols that are not served here.
    fn source(&self) -> Option<Source> {
        match self {
            Self::Lines | Self::Fluent(_) => None,
            Self::Syslog(_) => Some(Source::Syslog),
            Self::Gelf => Some(Source::Gelf),
        }
    }

    fn stream_decoder(&self, peer: SocketAddr, config: &Config) -> Option<Box<dyn StreamDecoder>> {
        match self {
            Self::Lines | Self::Fluent(_) => None,
            Self::Syslog(zone) => Some(Box::new(syslog::SyslogStream::new(zone.clone(), peer, config.record_bytes()))),
            Self::Gelf => Some(Box::new(gelf::GelfStream::new(config.message_bytes()))),
        }
    }

    fn datagram_decoder(&self, config: &Config) -> Option<Box<dyn DatagramDecoder>> {
        match self {
            Self::Lines | Self::Fluent(_) => None,
            Self::Syslog(zone) => Some(Box::new(syslog::SyslogDatagrams::new(zone.clone()))),
            Self::Gelf => Some(Box::new(gelf::GelfDatagrams::new(config.message_bytes(), config.partial_bytes_max))),
        }
    }
}

/// The records of one connection, or of all datagrams of a listener.
fn event_records(shared: &ListenerState, source: Source) -> EventRecords {
    let intake = shared.intake.clone();
    let ids = IdAssignment::arrival(&intake);
    let target = EventTarget { intake, source, durability: shared.endpoint.durability };
    EventRecords::new(target, ids, shared.config.record_bytes()).retaining()
}
