//! Formats of exported files.

use clap::ValueEnum;

/// Formats of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExportFormat {
    /// One JSON object per line, as query -o json prints them
    Ndjson,
    /// Apache Parquet
    Parquet,
}
