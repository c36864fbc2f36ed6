//! Settings of the cluster.

use std::path::PathBuf;
use std::time::Duration;

use crate::ClusterVersion;

/// Settings of a node's membership.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data directory, for `members.json`.
    pub data_dir: PathBuf,
    /// Seeds as `HOST:PORT`. One live seed is enough; the order of starts does not matter.
    pub join: Vec<String>,
    /// How long departed members are kept: the retention age, as long as they may have records that queries ask for.
    pub remember_for: Duration,
    /// Interval of probes. Shorter detects failures sooner, and costs two datagrams per probe.
    pub probe_period: Duration,
    /// Time in which a suspected member can refute before it is down. Shorter detects failures sooner, longer tolerates pauses
    /// and lost datagrams.
    pub suspect_timeout: Duration,
    /// Interval of digest exchanges.
    pub exchange_period: Duration,
    /// The protocol version that the node publishes and uses: [`ClusterVersion::OWN`], except in tests of later versions.
    pub version: ClusterVersion,
    /// Maximum number of concurrent calls of other nodes; more are refused.
    pub calls_max: usize,
}

impl Config {
    /// Settings for a local network: a crashed node is [`crate::MemberState::Down`] usually after three seconds, and rarely
    /// after more than five.
    pub fn new(data_dir: PathBuf) -> Self {
        Self {
            data_dir,
            join: Vec::new(),
            remember_for: Duration::from_secs(7 * 24 * 3600),
            probe_period: Duration::from_millis(500),
            suspect_timeout: Duration::from_secs(2),
            exchange_period: Duration::from_secs(5),
            version: ClusterVersion::OWN,
            calls_max: 1_024,
        }
    }
}
