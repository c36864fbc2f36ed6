//! What a decoder finds in the bytes that are there so far.

/// A message, or how much of it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// At least so many more bytes are needed; never 0.
    Need(usize),
    /// The message, and how many bytes it took.
    Whole(T, usize),
}

impl<T> Step<T> {
    /// The bytes that are missing; 0 when the message is whole.
    #[must_use]
    pub fn missing(&self) -> usize {
        match self {
            Self::Need(missing) => *missing,
            Self::Whole(..) => 0,
        }
    }
}
