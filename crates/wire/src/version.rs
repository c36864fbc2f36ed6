//! The version of the protocol, and how two sides agree on one.

use std::fmt;

use crate::WireError;

/// A version of the protocol. A new major version cannot be spoken by an older side; a new minor version can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Counted from 1.
    pub major: u16,
    /// Counted from 0.
    pub minor: u16,
}

impl Version {
    /// The newest version that is known here.
    pub const NEWEST: Self = Self { major: 1, minor: 0 };

    /// The version that is spoken with a side whose newest is `theirs`: the lower of both.
    ///
    /// # Errors
    /// [`WireError::Version`] when its major version is newer, or never was.
    pub fn negotiate(theirs: Self) -> Result<Self, WireError> {
        let known = theirs.major >= 1 && theirs.major <= Self::NEWEST.major;
        if known { Ok(theirs.min(Self::NEWEST)) } else { Err(WireError::Version(theirs)) }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
