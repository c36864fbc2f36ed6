//! Settings of the store.

use std::fmt;
use std::time::Duration;

use bucksaw_tls::ClientTls;

use crate::database_url::DatabaseUrl;

/// Settings of the store.
#[derive(Clone, Debug)]
pub struct Config {
    /// Server, database and table.
    pub url: DatabaseUrl,
    /// The user's password.
    pub password: Password,
    /// TLS, for a URL that has it.
    pub tls: Option<ClientTls>,
    /// The age at which ClickHouse removes records.
    pub retention_age: Option<Duration>,
    /// Bytes of text in the queue that are worth an insert,
    pub batch_bytes_min: u64,
    /// or the age of the oldest segment in the queue.
    pub batch_age: Duration,
    /// Maximum bytes of text of the queue segments that are stored together.
    pub batch_bytes_max: u64,
    /// Bytes of rows in one insert, except for a longer record. As many inserts as connections are in memory.
    pub insert_bytes: usize,
    /// Time limit for connecting, and for short questions, such as whether the server is there.
    pub connect_timeout: Duration,
    /// How long a call may wait for the next bytes of its answer.
    pub idle_timeout: Duration,
}

impl Config {
    /// The defaults for a database.
    pub fn new(url: DatabaseUrl, password: Password) -> Self {
        Self {
            url,
            password,
            tls: None,
            retention_age: None,
            batch_bytes_min: 32 << 20,
            batch_age: Duration::from_secs(1),
            batch_bytes_max: 128 << 20,
            insert_bytes: 8 << 20,
            connect_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(60),
        }
    }
}

/// A password. It is in no output.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// A password, empty for none.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "***" })
    }
}
