//! Reads the log of a node.

use std::fs;
use std::path::Path;

/// Lines of a log that explain why a node ended.
const LAST_LINES: usize = 20;

/// The last lines of a log; empty if it cannot be read.
pub(crate) fn last_lines(path: &Path) -> String {
    let log = fs::read(path).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}
