//! Requests to ingest a body, and their replies.

use std::str::FromStr;

use bucksaw_ingest::Durability;
use bucksaw_record::time::TimeZone;
use bucksaw_record::{Labels, Millis};

/// How a body is cut into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// A record per line.
    Lines,
    /// A JSON object per line, with an event time. Blank lines are skipped.
    Ndjson,
}

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Not at all.
    Identity,
    /// Gzip, with any number of members.
    Gzip,
    /// The zlib format, which HTTP calls deflate.
    Deflate,
    /// Zstandard, with any number of frames.
    Zstd,
    /// Snappy, as a framed stream or as one block.
    Snappy,
}

impl FromStr for Encoding {
    type Err = String;

    /// Parses a value of `Content-Encoding`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(Self::Identity),
            "gzip" | "x-gzip" => Ok(Self::Gzip),
            "deflate" => Ok(Self::Deflate),
            "zstd" => Ok(Self::Zstd),
            "snappy" | "x-snappy-framed" => Ok(Self::Snappy),
            other => Err(format!("Content-Encoding {other} is not known: gzip, deflate, zstd and snappy are")),
        }
    }
}

/// A body and how it is to be ingested.
#[derive(Debug)]
pub struct IngestRequest<'a> {
    /// How it is cut into records.
    pub format: BodyFormat,
    /// How it is compressed.
    pub encoding: Encoding,
    /// The zone of the times in its lines; `None` if lines have the time of their arrival. Objects have their own times.
    pub line_zone: Option<TimeZone>,
    /// The labels of its records.
    pub labels: Labels,
    /// When its records count as accepted.
    pub durability: Durability,
    /// Its idempotency key.
    pub key: Option<&'a [u8]>,
    /// The time of a body with a key, if it does not follow from the key.
    pub batch_time: Option<Millis>,
    /// The minimum length of the body by its head, in bytes.
    pub bytes_min: u64,
}

/// The result of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IngestReply {
    /// Accepted records.
    pub accepted: u64,
    /// Rejected lines.
    pub rejected: u64,
    /// The line numbers and errors of the first rejected lines.
    pub line_errors: Vec<(u64, String)>,
}
