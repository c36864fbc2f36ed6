//! What a header states.

use super::stated_time::StatedTime;

/// The parts of a message, as slices of it. A part that is not stated is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SyslogHeader<'a> {
    pub(super) time: Option<StatedTime>,
    pub(super) host: &'a [u8],
    pub(super) app: &'a [u8],
    pub(super) procid: &'a [u8],
    pub(super) msgid: &'a [u8],
    /// The sequence number of Cisco devices.
    pub(super) sequence: &'a [u8],
    /// As written, escapes included.
    pub(super) structured_data: &'a [u8],
    pub(super) line: &'a [u8],
}

/// A part that is `-`, which states that there is none, is empty.
pub(super) fn without_nil(part: &[u8]) -> &[u8] {
    if part == b"-" { b"" } else { part }
}

/// The text up to the next space, and the text behind that space.
pub(super) fn take_word(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b' ', text) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default()),
        None => (text, b""),
    }
}
