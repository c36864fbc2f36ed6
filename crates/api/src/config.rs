//! Settings of the HTTP surface.

use std::time::Duration;

use bucksaw_sources::ListenerTls;
use bucksaw_sources::http::{self, BodyLimits};

/// Limit of a decompressed body in bytes. Uncompressed bodies have no limit.
const DECOMPRESSED_BYTES_MAX: u64 = 256 << 20;

/// The longest time that a body waits for memory before its client gets 503.
const BODIES_WAIT_MAX: Duration = Duration::from_secs(10);

/// Settings of the HTTP surface. Numbers of connections, requests and answers are limits on how many exist at once.
#[derive(Clone, Debug)]
pub struct Config {
    /// TLS of all listeners; `None` for connections in plain.
    pub tls: Option<ListenerTls>,
    /// Host names accepted in `Host`, besides `localhost` and all addresses; `*` accepts every name.
    pub allowed_hosts: Vec<String>,
    /// Connections. Beyond them only health checks and metrics are answered.
    pub connections_max: usize,
    /// Connections of one IPv4 address, or of one IPv6 network of 64 bits.
    pub address_connections_max: usize,
    /// Further connections, for health checks and metrics.
    pub reserved_connections_max: usize,
    /// Time limit for the head of a request, also of the next request on an open connection.
    pub header_timeout: Duration,
    /// Longest pause between two chunks of a request body.
    pub body_idle_timeout: Duration,
    /// Longest record in bytes; longer lines are cut.
    pub record_bytes_max: usize,
    /// Memory of all bodies in bytes, raised to one and a quarter times [`Self::body_bytes_max`] if it is less. With
    /// more, more slow clients send at once.
    pub bodies_bytes_max: usize,
    /// Bodies being processed; others wait.
    pub ingests_max: usize,
    /// Queries being processed; others wait, and get 429 after a while. A query that waits for its reader does not
    /// count.
    pub queries_max: usize,
    /// Answers being read. Each has a thread, some hundred kilobytes of frames.
    pub answers_max: usize,
    /// Tails.
    pub tails_max: usize,
    /// Answers that are compressed. Each takes up to a megabyte more; further ones are sent as they are.
    pub compressed_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tls: None,
            allowed_hosts: Vec::new(),
            connections_max: 8_192,
            address_connections_max: 2_048,
            reserved_connections_max: 32,
            header_timeout: Duration::from_secs(10),
            body_idle_timeout: Duration::from_secs(30),
            record_bytes_max: 1 << 20,
            bodies_bytes_max: 64 << 20,
            ingests_max: 32,
            queries_max: 16,
            answers_max: 64,
            tails_max: 256,
            compressed_max: 16,
        }
    }
}

impl Config {
    /// Memory that one body may need, in bytes. A snappy body may need more, because it is decompressed as a whole.
    #[must_use]
    pub fn body_bytes_max(&self) -> usize {
        http::body_bytes_max(self.record_bytes_max)
    }

    pub(crate) fn body_limits(&self) -> BodyLimits {
        BodyLimits {
            idle_timeout: self.body_idle_timeout,
            record_bytes_max: self.record_bytes_max,
            decompressed_bytes_max: DECOMPRESSED_BYTES_MAX,
            memory_bytes_max: self.bodies_bytes_max,
            memory_wait_max: BODIES_WAIT_MAX,
            workers_max: self.ingests_max,
        }
    }
}
