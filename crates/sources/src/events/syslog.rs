//! Syslog over a stream, and in datagrams.

use std::net::{IpAddr, SocketAddr};

use bucksaw_protocols::syslog::{SyslogArrival, SyslogDecoder, SyslogSplitter};
use bucksaw_record::time::TimeZone;
use bucksaw_record::{Labels, Millis};

use super::decoder::{DatagramDecoder, StreamDecoder};
use crate::intake::EventRecords;

/// The messages of one connection.
pub(super) struct SyslogStream {
    splitter: SyslogSplitter,
    decoder: SyslogDecoder,
    sender: String,
}

impl SyslogStream {
    /// Longer messages than `message_bytes_max` become several records.
    pub(super) fn new(zone: TimeZone, peer: SocketAddr, message_bytes_max: usize) -> Self {
        Self {
            splitter: SyslogSplitter::new(message_bytes_max),
            decoder: SyslogDecoder::new(zone, &Labels::default()),
            sender: peer.ip().to_canonical().to_string(),
        }
    }
}

impl StreamDecoder for SyslogStream {
    fn push(&mut self, chunk: &[u8], now: Millis, records: &mut EventRecords) {
        let Self { splitter, decoder, sender } = self;
        let arrival = SyslogArrival { now, sender };
        // A refused event is counted by the sink.
        splitter.push(chunk, &mut |frame| drop(decoder.frame(&frame, &arrival, records)));
    }

    fn finish(&mut self, now: Millis, records: &mut EventRecords) {
        let Self { splitter, decoder, sender } = self;
        let arrival = SyslogArrival { now, sender };
        splitter.finish(&mut |frame| drop(decoder.frame(&frame, &arrival, records)));
    }

    fn release_memory(&mut self) {
        self.decoder.release_memory(self.splitter.continues());
    }

    fn carry_bytes(&self) -> usize {
        self.splitter.carry_bytes() + self.decoder.held_bytes()
    }
}

/// The datagrams of all senders.
pub(super) struct SyslogDatagrams {
    decoder: SyslogDecoder,
    /// The last sender, as address and text.
    sender: Option<(IpAddr, String)>,
}

impl SyslogDatagrams {
    pub(super) fn new(zone: TimeZone) -> Self {
        Self { decoder: SyslogDecoder::new(zone, &Labels::default()), sender: None }
    }
}

impl DatagramDecoder for SyslogDatagrams {
    fn push(&mut self, datagram: &[u8], sender: Option<SocketAddr>, now: Millis, records: &mut EventRecords) {
        let address = sender.map(|sender| sender.ip().to_canonical());
        if self.sender.as_ref().map(|(address, _)| *address) != address {
            self.sender = address.map(|address| (address, address.to_string()));
        }
        let sender = self.sender.as_ref().map_or("", |(_, text)| text);
        // A refused event is counted by the sink.
        drop(self.decoder.message(datagram, &SyslogArrival { now, sender }, records));
    }

    fn release_memory(&mut self) {
        self.decoder.release_memory(false);
    }
}
