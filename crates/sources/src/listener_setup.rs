//! What a listener accepts.

use bucksaw_ingest::Durability;
use bucksaw_record::time::TimeZone;

use crate::shared_key::SharedKey;

/// What a listener accepts, and when its records count as accepted.
#[derive(Clone, Debug)]
pub struct ListenerSetup {
    /// The name of the listener in metrics, logs and `addresses.json`.
    pub name: &'static str,
    /// When records count as accepted. Protocols without acknowledgements do not tell their senders.
    pub durability: Durability,
    /// What its connections or datagrams are.
    pub protocol: ListenerProtocol,
}

/// A protocol that is not HTTP.
#[derive(Clone, Debug)]
pub enum ListenerProtocol {
    /// Lines, or the framed protocol if the first bytes select it. With a zone, lines have the time that they state, else
    /// that of their arrival.
    Lines(Option<TimeZone>),
    /// Syslog. Times without a zone are in this one.
    Syslog(TimeZone),
    /// GELF.
    Gelf,
    /// Fluentd's forward protocol. With a key, senders must prove that they know it.
    Fluent(Option<SharedKey>),
}

impl ListenerSetup {
    /// A listener for lines and the framed protocol, with the name of its durability.
    pub fn lines(durability: Durability) -> Self {
        Self { name: durability.name(), durability, protocol: ListenerProtocol::Lines(None) }
    }

    /// The zone of the times in lines, if lines have the time that they state.
    pub(crate) fn line_zone(&self) -> Option<&TimeZone> {
        match &self.protocol {
            ListenerProtocol::Lines(zone) => zone.as_ref(),
            _ => None,
        }
    }

    pub(crate) fn is_lines(&self) -> bool {
        matches!(self.protocol, ListenerProtocol::Lines(_))
    }
}
