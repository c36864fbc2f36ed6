//! Settings of the agent.

use std::time::Duration;

use bucksaw_auth::SecretText;
use bucksaw_record::Labels;
use bucksaw_record::time::TimeZone;
use bucksaw_tls::ClientTls;

use crate::{AgentInfo, AgentMonitor, LineConfig};

/// Settings of the agent.
#[derive(Clone, Debug)]
pub struct Config {
    /// The nodes as `HOST:PORT`. Names are resolved anew for each connection.
    pub addresses: Vec<String>,
    /// How nodes are verified; `None` for connections in plain. A node must have a certificate for its address here, or for that
    /// by which another node names it.
    pub tls: Option<ClientTls>,
    /// Whether the addresses are tried in random order, so that many agents with one list spread over its nodes.
    pub shuffle: bool,
    /// The token that is presented to nodes.
    pub token: Option<SecretText>,
    /// The labels of all records.
    pub labels: Labels,
    /// The zone of the times in lines; `None` if lines have the time of their batch.
    pub line_zone: Option<TimeZone>,
    /// What lines become.
    pub lines: LineConfig,
    /// Longer lines are cut, in bytes without the LF; at most 16 MiB. A node refuses frames that are much longer than its own
    /// limit.
    pub record_bytes_max: usize,
    /// Text of a full batch, in bytes; at most 8 MiB.
    pub batch_bytes: usize,
    /// The age at which a batch is sent in any case. Longer saves packets, shorter shows records sooner.
    pub linger: Duration,
    /// Unacknowledged bytes above which the input is not read.
    pub window_bytes: usize,
    /// The delay of the first reconnect; it doubles with each attempt.
    pub backoff_min: Duration,
    /// The longest delay of a reconnect.
    pub backoff_max: Duration,
    /// A node that sends no acknowledgement for this long is left. Doubles up to ten times if that does not help, because a
    /// `bulk` port may be slow for good reasons.
    pub ack_timeout: Duration,
    /// How long the agent waits for missing acknowledgements of a node that it leaves. Other batches are sent again.
    pub close_timeout: Duration,
    /// The agent gives up when batches wait and no acknowledgement arrives for this long; `None` is never.
    pub give_up_after: Option<Duration>,
    /// How long the agent waits for acknowledgements after the stop.
    pub stop_timeout: Duration,
    /// What the agent tells nodes about itself.
    pub info: AgentInfo,
    /// Gives the state of the agent while it runs.
    pub monitor: AgentMonitor,
}

impl Config {
    /// What a connection to a node needs: the settings of TLS, and the token.
    pub(crate) fn credentials(&self) -> (Option<&ClientTls>, Option<&SecretText>) {
        (self.tls.as_ref(), self.token.as_ref())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            tls: None,
            shuffle: true,
            token: None,
            labels: Labels::default(),
            line_zone: None,
            lines: LineConfig::default(),
            record_bytes_max: 1 << 20,
            batch_bytes: 256 << 10,
            linger: Duration::from_millis(50),
            window_bytes: 8 << 20,
            backoff_min: Duration::from_millis(100),
            backoff_max: Duration::from_secs(5),
            ack_timeout: Duration::from_secs(30),
            close_timeout: Duration::from_secs(5),
            give_up_after: None,
            stop_timeout: Duration::from_secs(5),
            info: AgentInfo::default(),
            monitor: AgentMonitor::default(),
        }
    }
}
