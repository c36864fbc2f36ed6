//! One line of a log file of a container.

use std::sync::Arc;

use bucksaw_record::Millis;

use crate::AttributeList;

/// An output stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// The standard output.
    Stdout,
    /// The standard error.
    Stderr,
}

impl OutputStream {
    /// The name in both formats.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// What a runtime has written about a line, or about a part of it.
#[derive(Clone, Copy, Debug)]
pub struct ContainerLine<'a> {
    /// The time at which the runtime has read it: milliseconds, and nanoseconds below.
    pub time: (Millis, u32),
    /// The stream to which the container has written it.
    pub stream: OutputStream,
    /// The text without its line end. An LF inside is possible in Docker's format.
    pub text: &'a [u8],
    /// Whether the next text of the stream continues the line.
    pub is_partial: bool,
    /// What else the runtime states: Docker's `attrs`. Lines with the same ones share the list.
    pub attributes: &'a Arc<AttributeList>,
}

/// A decoded line, with its text in the line itself or in the buffer of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DecodedParts<'a> {
    pub(super) time: (Millis, u32),
    pub(super) stream: OutputStream,
    /// `None`: in the buffer of the reader.
    pub(super) text: Option<&'a [u8]>,
    pub(super) is_partial: bool,
}
