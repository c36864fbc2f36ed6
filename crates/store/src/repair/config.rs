//! What can be set about repair.

use std::time::Duration;

/// Within this time after its start, a node knows all other stores: the live ones from gossip, the others from its member
/// file.
pub(super) const MEMBERS_KNOWN_AFTER: Duration = Duration::from_secs(10);

/// Settings of repair.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Bytes of files that it reads and sends in a second, at most, over a window and the rest after it.
    pub bytes_per_second: u64,
    /// Bytes of text that are compared and sent at a time, about: blocks whose times overlap are in memory together.
    pub range_bytes: u64,
    /// When a pass has ended, the next one begins after so long.
    pub pass_interval: Duration,
    /// A store that is down, or has left, for so long is taken for lost. Shorter than a restart takes, each restart copies
    /// all that the store had.
    pub lost_after: Duration,
    /// What came to a store less long ago may still be on its way to other stores. Longer than it usually takes to send a
    /// segment and sync it. Where that takes longer, an unneeded copy can be made, which does no harm.
    pub fresh_age_max: Duration,
    /// A window of which some store could not be asked, or that no other store took, is looked at again after so long.
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
