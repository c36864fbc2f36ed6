//! Where a node stores its records.

use std::str::FromStr;

use bucksaw_clickhouse::{DatabaseUrl, InvalidDatabaseUrl};

/// Where a node stores its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreLocation {
    /// In segments in its data directory.
    Segments,
    /// In a table of ClickHouse.
    ClickHouse(DatabaseUrl),
}

impl FromStr for StoreLocation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "segments" => Ok(Self::Segments),
            url => url.parse().map(Self::ClickHouse).map_err(|error: InvalidDatabaseUrl| match error {
                InvalidDatabaseUrl::Syntax => format!("expected `segments`, or a database: {error}"),
                error => error.to_string(),
            }),
        }
    }
}
