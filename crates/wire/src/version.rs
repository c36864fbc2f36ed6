//! The version of the protocol and its negotiation.

use std::fmt;

/// A version of the protocol. A side supports all minor versions of a major version that it supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WireVersion {
    /// Counted from 1.
    pub major: u16,
    /// Counted from 0.
    pub minor: u16,
}

impl WireVersion {
    /// The newest supported version.
    pub const NEWEST: Self = Self::TOKENS;

    /// The first version in which a client may present a token. It does so at no node of an older version.
    pub const TOKENS: Self = Self { major: 1, minor: 4 };

    /// The first version in which an agent reports its state. It does so at no node of an older version.
    pub const REPORTS: Self = Self { major: 1, minor: 3 };

    /// The first version in which a connection may change the labels of its batches. A client does so at no node of an older
    /// version.
    pub const LABELS: Self = Self { major: 1, minor: 2 };

    /// The first version with batches that may have records of several lines and attributes. A client sends them to no node
    /// of an older version.
    pub const MULTI_LINE: Self = Self { major: 1, minor: 1 };

    /// The version to use with a side whose newest is `theirs`: the lower of the two. `None` if its major version is not
    /// supported.
    #[must_use]
    pub fn negotiate(theirs: Self) -> Option<Self> {
        (1..=Self::NEWEST.major).contains(&theirs.major).then(|| theirs.min(Self::NEWEST))
    }
}

impl fmt::Display for WireVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
