//! Who takes the text of a body.

use super::body_error::BodyError;

/// Takes the decompressed text of a body while it arrives. Called on threads that may wait for the disk.
pub(super) trait BodyConsumer: Send + 'static {
    /// Takes more of the text.
    fn push(&mut self, text: &[u8]) -> Result<(), BodyError>;

    /// Takes more of the text with its memory.
    fn push_owned(&mut self, text: Vec<u8>) -> Result<(), BodyError> {
        self.push(&text)
    }

    /// Takes the end of the text.
    fn finish(&mut self) -> Result<(), BodyError>;

    /// Appends the collected records to the queue.
    fn flush(&mut self) -> Result<(), BodyError>;

    /// Frees memory that is not needed until there is more text.
    fn release_buffer(&mut self);

    /// Records that were accepted so far.
    fn accepted(&self) -> u64;

    /// Whether the body is too long to be accepted atomically, so that records may be appended at any time.
    fn may_flush_early(&self) -> bool;

    /// Whether the sender may pause for any time, as one that follows a log does. What it sent is appended within a second.
    fn is_endless(&self) -> bool {
        false
    }

    /// Bytes of memory that are held between two calls.
    fn buffered_bytes(&self) -> usize;

    /// The peak of memory while `text_bytes` of text are taken, the text itself not counted; `usize::MAX` if their number is
    /// unknown.
    fn peak_bytes(&self, text_bytes: usize) -> usize;
}
