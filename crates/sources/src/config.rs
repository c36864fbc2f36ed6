//! What can be set about the TCP listeners.

use std::time::Duration;

use bucksaw_segment::FrameHeader;

/// Settings of a listener.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where HTTP is served. Clients that send HTTP to a listener for lines get this address in the error.
    pub http_address: Option<String>,
    /// Longer lines are cut here, in bytes, the LF not counted. At most [`Self::RECORD_BYTES_LIMIT`] counts.
    pub record_bytes_max: usize,
    /// Connections of one listener. Those beyond it are closed at once, and counted.
    pub connections_max: usize,
    /// Memory of one listener for unfinished lines, in bytes, and as much again for unfinished frames. Beyond it the
    /// longer lines are cut where they are, and frames are read one after the other.
    pub partial_bytes_max: usize,
    /// The greatest frame that is taken, in bytes. A frame must be able to hold the longest record, so at least that and
    /// a little counts.
    pub frame_bytes_max: usize,
    /// Batches of one connection that wait for their promise; then it is not read from.
    pub unacked_frames_max: u64,
    /// The bytes of such batches.
    pub unacked_bytes_max: usize,
    /// How long the rest of a frame may take to arrive after its start. Half a frame holds memory that others want.
    pub frame_timeout: Duration,
    /// A client of the framed protocol is left alone for so long after it came, or was told of other nodes, before it is
    /// told of others for the load. A client that moves at once again ships nothing.
    pub redirect_interval_min: Duration,
    /// A client that has to go to another node has so long to close its side.
    pub close_timeout: Duration,
}

impl Config {
    /// The greatest record that can be configured: two of them fit in a frame.
    pub const RECORD_BYTES_LIMIT: usize = FrameHeader::BODY_BYTES_MAX / 2;

    /// What a frame may need beside one record.
    const FRAME_OVERHEAD_BYTES: usize = 64 << 10;

    /// The greatest record, within what is possible.
    pub(crate) fn record_bytes(&self) -> usize {
        self.record_bytes_max.clamp(1, Self::RECORD_BYTES_LIMIT)
    }

    /// The greatest frame, within what is possible.
    pub(crate) fn frame_bytes(&self) -> u32 {
        let least = self.record_bytes() + Self::FRAME_OVERHEAD_BYTES;
        let most = FrameHeader::LEN + FrameHeader::BODY_BYTES_MAX;
        u32::try_from(self.frame_bytes_max.clamp(least, most)).unwrap_or(u32::MAX)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            http_address: None,
            record_bytes_max: 1 << 20,
            connections_max: 10_000,
            partial_bytes_max: 64 << 20,
            frame_bytes_max: 4 << 20,
            unacked_frames_max: 1_024,
            unacked_bytes_max: 32 << 20,
            frame_timeout: Duration::from_secs(30),
            redirect_interval_min: Duration::from_secs(5),
            close_timeout: Duration::from_secs(10),
        }
    }
}
