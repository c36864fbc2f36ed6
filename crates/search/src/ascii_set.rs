//! A set of ASCII bytes.

/// A set of ASCII bytes, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsciiSet(u128);

impl AsciiSet {
    /// All ASCII bytes.
    pub const ALL: Self = Self(u128::MAX);

    /// The set with these bits, that of byte 0 first and lowest.
    pub fn from_le_bytes(bits: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bits))
    }

    /// The bits, that of byte 0 first and lowest.
    pub fn to_le_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// Adds a byte. Others than ASCII are ignored.
    pub fn insert(&mut self, byte: u8) {
        if byte.is_ascii() {
            self.0 |= 1 << byte;
        }
    }

    /// Whether the byte is in the set.
    pub fn contains(self, byte: u8) -> bool {
        byte.is_ascii() && self.0 >> byte & 1 == 1
    }
}
