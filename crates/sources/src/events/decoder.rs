//! What turns bytes of other log systems into records.

use std::net::SocketAddr;

use bucksaw_record::Millis;

use crate::intake::EventRecords;

/// Decodes the bytes of one connection.
pub(super) trait StreamDecoder: Send {
    /// Decodes the next bytes: adds the events of complete messages to `records`, which may append them to the queue, and
    /// keeps an unfinished message.
    fn push(&mut self, chunk: &[u8], now: Millis, records: &mut EventRecords);

    /// Ends the stream, or an unfinished message for which there is no memory.
    fn finish(&mut self, now: Millis, records: &mut EventRecords);

    /// Frees what is needed only while there is something to decode.
    fn release_memory(&mut self);

    /// Bytes that are held for an unfinished message after [`Self::release_memory`].
    fn carry_bytes(&self) -> usize;
}

/// Decodes the datagrams of one listener.
pub(super) trait DatagramDecoder: Send {
    /// Decodes a datagram; a Unix socket has no address of its sender.
    fn push(&mut self, datagram: &[u8], sender: Option<SocketAddr>, now: Millis, records: &mut EventRecords);

    /// Frees what is needed only while there is something to decode.
    fn release_memory(&mut self);

    /// The number of messages in several datagrams that were dropped so far.
    fn dropped(&self) -> u64 {
        0
    }
}
