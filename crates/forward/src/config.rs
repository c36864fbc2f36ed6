//! What can be set about the agent.

use std::time::Duration;

use bucksaw_record::Labels;

/// Settings of the agent.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to, as HOST:PORT; tried in turn. Names are resolved anew for each connection.
    pub addresses: Vec<String>,
    /// Whether the order of `to` is drawn by lot, so that many agents with one list spread over its nodes.
    pub shuffle: bool,
    /// The labels of all records.
    pub labels: Labels,
    /// Longer lines are cut here, in bytes, the LF not counted. At most 16 MiB counts, and no more than the node's own
    /// limit should be set: it takes no frame that is much larger.
    pub record_bytes_max: usize,
    /// A batch is sent when it has so many bytes of text. At most 8 MiB counts.
    pub batch_bytes: usize,
    /// A batch is sent at this age, however small. Longer saves packets, shorter shows records sooner.
    pub linger: Duration,
    /// So many bytes may wait for an acknowledgement; then the input is not read.
    pub window_bytes: usize,
    /// The wait before the second try to connect; it doubles with each try.
    pub backoff_min: Duration,
    /// The longest wait between two tries.
    pub backoff_max: Duration,
    /// A node that acknowledges nothing for so long is taken for dead and another connection is tried. Doubles, up to ten
    /// times, while that does not help: a `bulk` port may have good reasons to be slow.
    pub ack_timeout: Duration,
    /// An address that failed or refused is passed over for so long while there are others; it doubles with each time.
    pub ejection_min: Duration,
    /// The longest that an address is passed over.
    pub ejection_max: Duration,
    /// When a node has suggested others and one of them was taken, suggestions are passed over for so long.
    pub redirect_interval_min: Duration,
    /// How long acknowledgements of a node are waited for that is left for another; what is missing then is sent again.
    pub close_timeout: Duration,
    /// Gives up when nothing was acknowledged for so long while something waits for it; `None` is never.
    pub give_up_after: Option<Duration>,
    /// How long acknowledgements are waited for after the stop.
    pub stop_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            shuffle: true,
            labels: Labels::default(),
            record_bytes_max: 1 << 20,
            batch_bytes: 256 << 10,
            linger: Duration::from_millis(50),
            window_bytes: 8 << 20,
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            ack_timeout: Duration::from_secs(30),
            ejection_min: Duration::from_secs(5),
            ejection_max: Duration::from_secs(60),
            redirect_interval_min: Duration::from_secs(60),
            close_timeout: Duration::from_secs(5),
            give_up_after: None,
            stop_timeout: Duration::from_secs(5),
        }
    }
}
