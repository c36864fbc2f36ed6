//! Follows log files and loses no line.
mod arrivals;
mod chunk;
mod config;
mod content;
mod fingerprint;
mod gaps;
mod pattern;
mod position;
mod rotation_name;
mod scan;
mod search;
mod tailed_file;
mod tailer;
#[cfg(test)]
mod tests;
mod turn;
mod unpacker;

pub use chunk::FileChunk;
pub use config::{ReadFrom, TailerConfig};
pub use fingerprint::{ANCHOR_BYTES_MAX, Anchor, FINGERPRINT_BYTES_MAX, Fingerprint};
pub use gaps::{Gap, GapReason, TailerCounters};
pub use pattern::{PathPattern, PatternError};
pub use position::{FileKey, FilePosition, PositionError};
pub use tailer::{ReadReport, Tailer};
