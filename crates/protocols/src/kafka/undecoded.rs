//! Why a message does not fit its mapping.

/// Why a message was stored as it is and not as the mapping says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Undecoded {
    /// It has no value: it deletes its key from a compacted topic. The line is empty.
    Tombstone,
    /// The value is not one JSON object. The line is the value.
    InvalidJson,
    /// Key, headers and members of the value are beyond the limits of attributes. The line is the value.
    TooManyAttributes,
    /// A header has a name that cannot be read, because it is not UTF-8. The header is missing.
    HeaderName,
}

impl Undecoded {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Tombstone, Self::InvalidJson, Self::TooManyAttributes, Self::HeaderName];

    /// The name in attributes and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tombstone => "tombstone",
            Self::InvalidJson => "invalid_json",
            Self::TooManyAttributes => "too_many_attributes",
            Self::HeaderName => "header_name",
        }
    }
}
