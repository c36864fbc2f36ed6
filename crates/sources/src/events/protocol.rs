//! The decoder of each protocol.

use std::net::SocketAddr;

use bucksaw_ingest::Source;

use super::decoder::{DatagramDecoder, StreamDecoder};
use super::{gelf, syslog};
use crate::config::Config;
use crate::intake::{EventRecords, EventTarget, IdAssignment};
use crate::listener_setup::ListenerProtocol;
use crate::listener_state::ListenerState;

impl ListenerProtocol {
    /// Where its records come in; `None` for protocols that are not served here.
    pub(super) fn source(&self) -> Option<Source> {
        match self {
            Self::Lines(_) | Self::Fluent(_) => None,
            Self::Syslog(_) => Some(Source::Syslog),
            Self::Gelf => Some(Source::Gelf),
        }
    }

    pub(super) fn stream_decoder(&self, peer: SocketAddr, config: &Config) -> Option<Box<dyn StreamDecoder>> {
        match self {
            Self::Lines(_) | Self::Fluent(_) => None,
            Self::Syslog(zone) => Some(Box::new(syslog::SyslogStream::new(zone.clone(), peer, config.record_bytes()))),
            Self::Gelf => Some(Box::new(gelf::GelfStream::new(config.message_bytes()))),
        }
    }

    pub(super) fn datagram_decoder(&self, config: &Config) -> Option<Box<dyn DatagramDecoder>> {
        match self {
            Self::Lines(_) | Self::Fluent(_) => None,
            Self::Syslog(zone) => Some(Box::new(syslog::SyslogDatagrams::new(zone.clone()))),
            Self::Gelf => Some(Box::new(gelf::GelfDatagrams::new(config.message_bytes(), config.partial_bytes_max))),
        }
    }
}

/// The records of one connection, or of all datagrams of a listener.
pub(super) fn event_records(shared: &ListenerState, source: Source) -> EventRecords {
    let intake = shared.intake.clone();
    let ids = IdAssignment::arrival(&intake);
    let target = EventTarget { intake, source, durability: shared.setup.durability };
    EventRecords::new(target, ids, shared.config.record_bytes()).retaining()
}
