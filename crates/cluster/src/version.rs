//! The version of the protocol between nodes.
//!
//! A minor version only adds fields, calls, and packet kinds from 128 on. Unknown ones are ignored, and missing fields have
//! defaults. Any other change is a major version, and nodes of different major versions form no cluster.
//!
//! Only compatible versions are tested together. So segments are not fetched from an incompatible member, and not
//! replicated to it. Its records stay in its queue and are found there, and
//! [`Member::version_skew`](crate::Member::version_skew) reports it.
//!
//! Files are exchanged unchanged. The version that introduces a format only reads it; the next one writes it. So compatible
//! versions read each other's files, and a downgrade by one version is possible. The published [`Formats`] ensure that no node
//! receives a file that it cannot read.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The major version of the protocol between nodes. Packets of another one are ignored.
pub const PROTOCOL: u32 = 1;

/// Bounds of version numbers, so that facts fit into a datagram.
pub(crate) const MINOR_MAX: u32 = 999;
const FORMAT_MAX: u32 = 99;

/// A protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterVersion {
    /// Nodes of different major versions do not communicate.
    pub major: u32,
    /// Counts additions.
    pub minor: u32,
}

/// The formats of the files that nodes exchange.
///
/// In JSON four numbers, because datagrams are small: the newest format that is read and the one that is written, for queue
/// segments and then for stored segments. A later version may append numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<u32>", into = "Vec<u32>")]
pub struct Formats {
    /// Of queue segments.
    pub queue: Format,
    /// Of stored segments.
    pub stored: Format,
}

/// The formats of one kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The newest that is read; older ones are read too.
    pub reads: u32,
    /// The one that is written.
    pub writes: u32,
}

impl ClusterVersion {
    /// The version of this program.
    pub const OWN: Self = Self { major: PROTOCOL, minor: 0 };

    /// Whether two versions are compatible: the same major version, and minor versions at most one apart.
    pub const fn is_compatible(self, other: Self) -> bool {
        self.major == other.major && self.minor.abs_diff(other.minor) <= 1
    }
}

impl fmt::Display for ClusterVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Format {
    /// A format that is read and written.
    pub const fn new(version: u32) -> Self {
        Self { reads: version, writes: version }
    }
}

impl Default for Formats {
    /// The first formats.
    fn default() -> Self {
        Self { queue: Format::new(1), stored: Format::new(1) }
    }
}

impl From<Vec<u32>> for Formats {
    fn from(numbers: Vec<u32>) -> Self {
        let mut numbers = numbers.into_iter();
        let mut next = |first: Format| Format {
            reads: numbers.next().unwrap_or(first.reads),
            writes: numbers.next().unwrap_or(first.writes),
        };
        let Self { queue, stored } = Self::default();
        Self { queue: next(queue), stored: next(stored) }
    }
}

impl From<Formats> for Vec<u32> {
    fn from(Formats { queue, stored }: Formats) -> Self {
        vec![queue.reads, queue.writes, stored.reads, stored.writes]
    }
}

impl Formats {
    pub(crate) fn is_valid(self) -> bool {
        Vec::from(self).iter().all(|number| *number <= FORMAT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minor_versions_one_apart_are_compatible() {
        let check = |one: (u32, u32), other: (u32, u32), want| {
            let version = |(major, minor)| ClusterVersion { major, minor };
            assert_eq!(version(one).is_compatible(version(other)), want, "{one:?} {other:?}");
            assert_eq!(version(other).is_compatible(version(one)), want, "{other:?} {one:?}");
        };
        check((1, 0), (1, 0), true);
        check((1, 0), (1, 1), true);
        check((1, 0), (1, 2), false);
        check((1, 1), (2, 1), false);
        check((1, 0), (1, u32::MAX), false);
    }

    #[test]
    fn absent_formats_are_the_first() {
        let first = Formats { queue: Format::new(1), stored: Format::new(1) };
        let check =
            |text: &str, want: Formats| assert_eq!(serde_json::from_str::<Formats>(text).unwrap(), want, "{text}");
        assert_eq!(Formats::default(), first);
        check("[]", first);
        check("[1,1,1,1]", first);
        check("[3,2]", Formats { queue: Format { reads: 3, writes: 2 }, ..first });
        check("[1,1,4,3,7,7,7]", Formats { stored: Format { reads: 4, writes: 3 }, ..first });
        assert_eq!(serde_json::to_string(&first).unwrap(), "[1,1,1,1]");
    }
}
