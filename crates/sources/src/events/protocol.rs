//! The decoder of each protocol.

use std::net::SocketAddr;

use bucksaw_auth::ClientAccess;
use bucksaw_ingest::Source;

use super::decoder::{DatagramDecoder, StreamDecoder};
use super::gelf::{GelfDatagrams, GelfStream};
use super::syslog::{SyslogDatagrams, SyslogStream};
use crate::config::Config;
use crate::intake::{EventRecords, EventTarget, IdAssignment};
use crate::listener_setup::ListenerProtocol;
use crate::listener_state::ListenerState;

impl ListenerProtocol {
    /// Where its records come in, and what decodes its streams; `None` for protocols that are not served here.
    pub(super) fn stream_decoder(&self, peer: SocketAddr, config: &Config) -> Option<(Source, Box<dyn StreamDecoder>)> {
        let (syslog, gelf) = (config.record_bytes(), config.message_bytes());
        match self {
            Self::Lines(_) | Self::Fluent(_) => None,
            Self::Syslog(zone) => Some((Source::Syslog, Box::new(SyslogStream::new(zone.clone(), peer, syslog)))),
            Self::Gelf => Some((Source::Gelf, Box::new(GelfStream::new(gelf)))),
        }
    }

    /// The same for datagrams.
    pub(super) fn datagram_decoder(&self, config: &Config) -> Option<(Source, Box<dyn DatagramDecoder>)> {
        let (message, chunks) = (config.message_bytes(), config.partial_bytes_max);
        match self {
            Self::Lines(_) | Self::Fluent(_) => None,
            Self::Syslog(zone) => Some((Source::Syslog, Box::new(SyslogDatagrams::new(zone.clone())))),
            Self::Gelf => Some((Source::Gelf, Box::new(GelfDatagrams::new(message, chunks)))),
        }
    }
}

/// The records of one connection of a client, or of all datagrams of a listener.
pub(super) fn event_records(shared: &ListenerState, client: &ClientAccess, source: Source) -> EventRecords {
    let intake = shared.intake.clone().of_client(client);
    let ids = IdAssignment::arrival(&intake);
    let target = EventTarget { intake, source, durability: shared.setup.durability };
    EventRecords::new(target, ids, shared.config.record_bytes()).retaining()
}
