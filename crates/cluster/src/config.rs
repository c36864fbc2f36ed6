//! What can be set about the cluster.

use std::path::PathBuf;
use std::time::Duration;

use crate::Version;

/// Settings of a node's membership.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data directory, where `members.json` lies.
    pub data_dir: PathBuf,
    /// Nodes to join, as `HOST:PORT`. One that is alive is enough, and the order of starts does not matter.
    pub join: Vec<String>,
    /// How long a node that is down is remembered, when it does not come back, is not forgotten and did not say goodbye.
    /// As long as it could hold records that are asked for: the retention age.
    pub remember_for: Duration,
    /// How often another node is asked whether it is there. Shorter finds the dead sooner and costs two datagrams each.
    pub probe_period: Duration,
    /// How long an answer to that may take before others are asked to ask, too. Less than half the period.
    pub probe_timeout: Duration,
    /// How long a node that did not answer may contradict before it counts as down. Shorter finds the dead sooner, longer
    /// bears with pauses and lost datagrams.
    pub suspect_timeout: Duration,
    /// How often the list of nodes is compared with another node's.
    pub exchange_period: Duration,
    /// Own facts are told to others at most this often.
    pub facts_period: Duration,
    /// What the node tells others that it speaks, and goes by: [`Version::OWN`]. Only tests of versions to come say otherwise.
    pub version: Version,
    /// How many calls of other nodes are answered at the same time; more are refused.
    pub calls_max: usize,
}

impl Config {
    /// Settings for a local network: a node that crashes is [`crate::State::Down`] after three seconds mostly, and
    /// hardly ever after more than five.
    #[must_use]
    pub fn new(data_dir: PathBuf) -> Self {
        Self {
            data_dir,
            join: Vec::new(),
            remember_for: Duration::from_secs(7 * 24 * 3600),
            probe_period: Duration::from_millis(500),
            probe_timeout: Duration::from_millis(200),
            suspect_timeout: Duration::from_secs(2),
            exchange_period: Duration::from_secs(5),
            facts_period: Duration::from_secs(1),
            version: Version::OWN,
            calls_max: 1_024,
        }
    }
}
