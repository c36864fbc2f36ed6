//! What a node has logged.

use std::fs;
use std::path::Path;

/// How many lines of a log say why a node ended.
const LAST_LINES: usize = 20;

/// The last lines of a log; none of one that cannot be read.
pub(crate) fn last_lines(path: &Path) -> String {
    let log = fs::read(path).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}
