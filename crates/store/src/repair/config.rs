//! Settings of repair.

use std::time::Duration;

/// After this time since its start, a node has the complete list of stores: the live ones from gossip, the others from
/// its member file.
pub(super) const MEMBERS_KNOWN_AFTER: Duration = Duration::from_secs(10);

/// Settings of repair.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Maximum bytes per second that repair reads and sends, averaged over a range and the pause after it.
    pub bytes_per_second: u64,
    /// Approximate bytes of text per range: blocks with overlapping times are in memory together.
    pub range_bytes: u64,
    /// Time between two passes.
    pub pass_interval: Duration,
    /// Time after which a store that is down or has left is lost. If this is shorter than a restart, each restart
    /// re-replicates everything that the store has.
    pub lost_after: Duration,
    /// Age below which a record may still be in transit to other stores. It should exceed the usual time to send and sync a
    /// segment; otherwise repair may create one extra replica, which is harmless.
    pub fresh_age_max: Duration,
    /// Pause before a deferred range is compared again.
    pub retry_delay: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bytes_per_second: 32 << 20,
            range_bytes: 32 << 20,
            pass_interval: Duration::from_secs(24 * 3600),
            lost_after: Duration::from_secs(60),
            fresh_age_max: Duration::from_secs(10),
            retry_delay: Duration::from_secs(10),
        }
    }
}
