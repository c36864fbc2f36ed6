//! Why a call of ClickHouse failed.

use std::io;

use bucksaw_tls::TlsFailure;

/// Why a call of ClickHouse failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClickHouseError {
    /// No connection.
    #[error("cannot connect: {0}")]
    Connect(#[source] io::Error),
    /// No connection with TLS. The text begins with what is wrong with the server.
    #[error("no connection with TLS: {}", with_flag(.0))]
    Tls(#[from] TlsFailure),
    /// The connection failed during a call.
    #[error("the connection failed: {0}")]
    Connection(#[from] hyper::Error),
    /// Nothing came within the time limit.
    #[error("no answer within {0} s")]
    Timeout(u64),
    /// ClickHouse reported an error.
    #[error("ClickHouse error {code}: {message}")]
    Refused {
        /// Its number.
        code: String,
        /// Its text, shortened.
        message: String,
    },
    /// The answer has not the expected form.
    #[error("unexpected answer: {0}")]
    Malformed(&'static str),
    /// The table was not created by Bucksaw.
    #[error("the table exists and has no comment `bucksaw schema …`: name another by `?table=…`")]
    ForeignTable,
    /// The table was migrated by a newer version.
    #[error("the table has schema {0}, which is newer than this program: use the newer program")]
    NewerTable(u32),
    /// The directory of records that wait cannot be used.
    #[error("cannot use the directory of waiting records: {0}")]
    Spool(#[source] io::Error),
    /// The caller needs the answer no more.
    #[error("stopped")]
    Stopped,
    /// The task of a call ended early.
    #[error("internal error: the call ended early")]
    Internal,
}

impl ClickHouseError {
    /// Whether it may pass by itself, as when ClickHouse restarts; else someone has to change something.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Connection(_) | Self::Timeout(_) | Self::Stopped | Self::Internal => true,
            // As when the server stops. With other certificates it will not pass.
            Self::Tls(failure) => matches!(failure, TlsFailure::Closed | TlsFailure::Other(_)),
            // Without a code, a proxy may have answered. Others may pass, such as a lack of memory; not a wrong password (516,
            // 193, 194), or an unknown user (192), and not missing rights (497).
            Self::Refused { code, .. } => !["192", "193", "194", "497", "516"].contains(&code.as_str()),
            Self::Malformed(_) | Self::Spool(_) | Self::ForeignTable | Self::NewerTable(_) => false,
        }
    }
}

/// The text of a failure with the flag of a node in the place of that of a client.
fn with_flag(failure: &TlsFailure) -> String {
    failure.to_string().replace("--ca", "--database-ca")
}
