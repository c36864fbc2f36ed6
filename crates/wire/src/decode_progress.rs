//! The result of decoding bytes that may be incomplete.

/// A complete message, or the number of missing bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeProgress<T> {
    /// At least this number of further bytes is needed; never 0.
    Incomplete(usize),
    /// The message and its length in bytes.
    Complete(T, usize),
}

impl<T> DecodeProgress<T> {
    /// The number of missing bytes; 0 if the message is complete.
    pub fn missing_bytes(&self) -> usize {
        match self {
            Self::Incomplete(missing) => *missing,
            Self::Complete(..) => 0,
        }
    }
}
