//! What is remembered of a file between two of its chunks. All of it is advice: a restart loses nothing with it.

use std::time::Duration;

use bucksaw_protocols::container::ContainerFormat;

/// The streams of a container's log, and the lines that are in none of them.
pub(super) const SLOTS: usize = 3;

/// How the lines of one file are read.
#[derive(Debug)]
pub(crate) struct FileLines {
    /// `None`: each line is text.
    pub(super) format: Option<ContainerFormat>,
    pub(super) waiting: [Option<WaitingEvent>; SLOTS],
    pub(super) next_scan: Option<NextScan>,
}

/// An incomplete event that was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingEvent {
    /// Its offsets in the file.
    pub(super) start: u64,
    pub(super) end: u64,
    /// When it was first seen with this end, as uptime.
    pub(super) since: Duration,
}

/// When a long text without a whole event is worth reading again.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextScan {
    /// The offset of the text in the file.
    pub(super) offset: u64,
    /// The length from which on it is.
    pub(super) length: usize,
    /// The uptime from which on it is.
    pub(super) due: Duration,
}

impl FileLines {
    /// A file of this format; `None` if each line is text.
    pub(crate) fn new(format: Option<ContainerFormat>) -> Self {
        Self { format, waiting: [None; SLOTS], next_scan: None }
    }

    /// Whether each line is text.
    pub(crate) fn is_text(&self) -> bool {
        self.format.is_none()
    }
}
