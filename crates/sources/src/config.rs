//! Settings of the TCP listeners.

use std::time::Duration;

use bucksaw_segment::FrameHeader;

use crate::tls_handshake::ListenerTls;

/// Settings of a listener.
#[derive(Clone, Debug)]
pub struct Config {
    /// TLS of all TCP listeners; `None` for connections in plain.
    pub tls: Option<ListenerTls>,
    /// The address of the HTTP port, for the error that clients get when they send HTTP to a line port.
    pub http_address: Option<String>,
    /// Longer lines are cut, in bytes without the LF; at most [`Self::RECORD_BYTES_LIMIT`].
    pub record_bytes_max: usize,
    /// Connections of one listener. Further ones are closed at once and counted.
    pub connections_max: usize,
    /// Memory of one listener for unfinished lines, in bytes, and as much again for unfinished frames. Above it the longer
    /// lines are cut, and frames wait for memory.
    pub partial_bytes_max: usize,
    /// The largest frame, in bytes; at least that of the longest record.
    pub frame_bytes_max: usize,
    /// Unacknowledged batches above which a connection is not read from.
    pub unacked_frames_max: u64,
    /// How long the rest of a frame may take to arrive. Half a frame holds memory that others wait for.
    pub frame_timeout: Duration,
    /// A framed client is checked for a redirect after this interval or up to twice that. A client that moves at once again
    /// ships nothing.
    pub redirect_interval_min: Duration,
    /// How long a client that must leave may take to close its side.
    pub close_timeout: Duration,
}

impl Config {
    /// The upper limit of [`Self::record_bytes_max`]: two such records fit in a frame.
    pub const RECORD_BYTES_LIMIT: usize = FrameHeader::BODY_BYTES_MAX / 2;

    /// The longest message of any protocol.
    const MESSAGE_BYTES_LIMIT: usize = 16 << 20;

    /// The bytes that a frame may need beside one record.
    const FRAME_OVERHEAD_BYTES: usize = 64 << 10;

    /// The longest record, within the limits.
    pub(crate) fn record_bytes(&self) -> usize {
        self.record_bytes_max.clamp(1, Self::RECORD_BYTES_LIMIT)
    }

    /// The longest message of a protocol that cannot be cut, in bytes: 16 MiB, or less where there is little memory.
    pub(crate) fn message_bytes(&self) -> usize {
        self.partial_bytes_max.saturating_mul(4).clamp(self.record_bytes(), Self::MESSAGE_BYTES_LIMIT)
    }

    /// The largest frame, within the limits.
    pub(crate) fn frame_bytes(&self) -> u32 {
        let lower = self.record_bytes() + Self::FRAME_OVERHEAD_BYTES;
        let upper = FrameHeader::LEN + FrameHeader::BODY_BYTES_MAX;
        u32::try_from(self.frame_bytes_max.clamp(lower, upper)).unwrap_or(u32::MAX)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tls: None,
            http_address: None,
            record_bytes_max: 1 << 20,
            connections_max: 10_000,
            partial_bytes_max: 64 << 20,
            frame_bytes_max: 4 << 20,
            unacked_frames_max: 1_024,
            frame_timeout: Duration::from_secs(30),
            redirect_interval_min: Duration::from_secs(5),
            close_timeout: Duration::from_secs(10),
        }
    }
}
