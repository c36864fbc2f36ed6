//! GELF over a stream, and in datagrams.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use bucksaw_protocols::gelf::{GelfChunks, GelfDecoder, GelfError, GelfSplitter, Reassembled};
use bucksaw_record::{Labels, Millis};

use super::decoder::{DatagramDecoder, StreamDecoder};
use crate::intake::EventRecords;

/// The messages of one connection.
pub(super) struct GelfStream {
    splitter: GelfSplitter,
    decoder: GelfDecoder,
}

impl GelfStream {
    pub(super) fn new(message_bytes_max: usize) -> Self {
        Self { splitter: GelfSplitter::new(message_bytes_max), decoder: decoder(message_bytes_max) }
    }
}

impl StreamDecoder for GelfStream {
    fn push(&mut self, chunk: &[u8], _: Millis, records: &mut EventRecords) {
        let Self { splitter, decoder } = self;
        splitter.push(chunk, &mut |message| decode(decoder, message, records));
    }

    fn finish(&mut self, _: Millis, records: &mut EventRecords) {
        let Self { splitter, decoder } = self;
        splitter.finish(&mut |message| decode(decoder, message, records));
    }

    fn release_memory(&mut self) {
        self.decoder.release_memory();
    }

    fn carry_bytes(&self) -> usize {
        self.splitter.carry_bytes()
    }
}

/// The datagrams of all senders.
pub(super) struct GelfDatagrams {
    chunks: GelfChunks,
    decoder: GelfDecoder,
}

impl GelfDatagrams {
    /// The chunks of unfinished messages have at most `chunks_bytes_max` bytes.
    pub(super) fn new(message_bytes_max: usize, chunks_bytes_max: usize) -> Self {
        Self { chunks: GelfChunks::new(chunks_bytes_max), decoder: decoder(message_bytes_max) }
    }
}

impl DatagramDecoder for GelfDatagrams {
    fn push(&mut self, datagram: &[u8], sender: Option<SocketAddr>, now: Millis, records: &mut EventRecords) {
        let sender = sender.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |sender| sender.ip().to_canonical());
        match self.chunks.push(sender, datagram, now) {
            Ok(Reassembled::Whole(message)) => decode(&mut self.decoder, Ok(message), records),
            Ok(Reassembled::Joined(message)) => decode(&mut self.decoder, Ok(&message), records),
            Ok(Reassembled::Incomplete) => {}
            Err(error) => records.reject(&error),
        }
    }

    fn release_memory(&mut self) {
        self.decoder.release_memory();
    }

    fn dropped(&self) -> u64 {
        self.chunks.dropped()
    }
}

fn decoder(message_bytes_max: usize) -> GelfDecoder {
    GelfDecoder::new(&Labels::default(), message_bytes_max)
}

fn decode(decoder: &mut GelfDecoder, message: Result<&[u8], GelfError>, records: &mut EventRecords) {
    match message.and_then(|message| decoder.message(message, records)) {
        // Events are counted by the sink.
        Ok(()) | Err(GelfError::Event(_)) => {}
        Err(error) => records.reject(&error),
    }
}
