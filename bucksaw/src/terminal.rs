//! The size of a terminal.

use std::env;
use std::os::fd::AsFd;

/// The columns of a terminal, or of `COLUMNS`; `None` if the stream is no terminal.
pub(crate) fn columns(stream: &impl AsFd) -> Option<usize> {
    let set = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
    let measured = rustix::termios::tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_col));
    measured.filter(|columns| *columns > 0).map(|columns| set.unwrap_or(columns))
}
