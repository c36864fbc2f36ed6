//! Finds the messages of a connection.

use super::scanner::{MsgpackScanner, Scanned};
use super::{FluentError, MESSAGE_DEPTH_MAX};

/// Whether there is a whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FluentFrame {
    /// The buffer begins with a message of this many bytes.
    Whole(usize),
    /// At least this many bytes of the first message are missing, at least one. The sender states it, so read the bytes
    /// in parts and do not allocate them at once.
    Missing(usize),
}

/// Finds the end of each message in the bytes of one connection.
///
/// The work is linear in the bytes of a message, whatever the parts in which they arrive. MessagePack has no lengths of
/// messages, so the framer visits each value; it passes over the text of strings without reading it.
#[derive(Debug)]
pub struct FluentFramer {
    scanner: MsgpackScanner,
    message_bytes_max: usize,
}

impl FluentFramer {
    /// A framer for messages of at most `message_bytes_max` bytes.
    pub fn new(message_bytes_max: usize) -> Self {
        Self { scanner: MsgpackScanner::new(MESSAGE_DEPTH_MAX), message_bytes_max }
    }

    /// Goes on with the first message of `buffer`, which begins with the bytes of the last call unless that found a whole
    /// message. After [`FluentFrame::Whole`] remove the message from the buffer, and call again for the next one.
    ///
    /// # Errors
    /// [`FluentError`] if the bytes are no message, or the message is too long. No later message of the connection can
    /// be read then. A message that states too long a length is refused before its bytes arrive.
    pub fn frame(&mut self, buffer: &[u8]) -> Result<FluentFrame, FluentError> {
        let Some(first) = buffer.first() else { return Ok(FluentFrame::Missing(1)) };
        if !matches!(first, 0x90..=0x9f | 0xc0 | 0xdc | 0xdd) {
            return Err(FluentError::NotForward(*first));
        }
        let max = self.message_bytes_max;
        let within_max = |length| usize::try_from(length).ok().filter(|length| *length <= max);
        let too_long = || FluentError::TooLong(max);
        match self.scanner.scan(buffer)? {
            Scanned::Whole(length) => Ok(FluentFrame::Whole(within_max(length).ok_or_else(too_long)?)),
            Scanned::Partial(length) => {
                let length = within_max(length).ok_or_else(too_long)?;
                Ok(FluentFrame::Missing(length.saturating_sub(buffer.len())))
            }
        }
    }
}
