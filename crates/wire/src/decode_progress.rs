//! What a decoder finds in the bytes that are there so far.

/// A message, or how much of it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeProgress<T> {
    /// At least so many more bytes are needed; never 0.
    Incomplete(usize),
    /// The message, and how many bytes it took.
    Complete(T, usize),
}

impl<T> DecodeProgress<T> {
    /// The bytes that are missing; 0 when the message is whole.
    #[must_use]
    pub fn missing_bytes(&self) -> usize {
        match self {
            Self::Incomplete(missing) => *missing,
            Self::Complete(..) => 0,
        }
    }
}
