//! The version of what nodes say to each other, and what nodes of different versions do with one another.
//!
//! A minor version only adds: fields of messages, calls, packets of kinds from 128 on. Who does not know them passes over
//! them, and who misses them takes a default. Nothing that is there changes its meaning, and nothing is taken away. A change
//! that does more is a major version, and nodes of different major versions are no cluster.
//!
//! What has to hold between neighbours is tried; between versions that are farther apart it is not. So nothing is taken from
//! the queue of a node that is no neighbour, and no copy is given to it: records stay where they are and are found there,
//! and [`Member::apart`](crate::Member::apart) says why.
//!
//! Files are handed over as they lie. A version that brings a new format of them only reads it; the next one writes it. So
//! neighbours always read what the other writes, and whoever goes back by one version reads what it wrote. That no file is
//! handed to a node that does not read it is seen to by what nodes tell of themselves: [`Formats`].

use std::fmt;

use serde::{Deserialize, Serialize};

/// The major version of what nodes say to each other. Packets of another one are ignored.
pub const PROTOCOL: u32 = 1;

/// Bounds of numbers that nodes tell, so that there is room for them in a datagram: more than there will be.
pub(crate) const MINOR_MAX: u32 = 999;
const FORMAT_MAX: u32 = 99;

/// A version of what nodes say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Nodes of different ones do not understand each other.
    pub major: u32,
    /// What was added.
    pub minor: u32,
}

/// The formats of the files that nodes hand to each other.
///
/// In JSON four numbers, for there is little room in a datagram: for queues the newest that is read, the one that is written;
/// then the same for what is stored. A later version may add numbers behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<u32>", into = "Vec<u32>")]
pub struct Formats {
    /// Of segments in queues.
    pub queue: Format,
    /// Of segments that are stored.
    pub stored: Format,
}

/// The formats of one kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The newest that is read; older ones are, too.
    pub reads: u32,
    /// The one that is written.
    pub writes: u32,
}

impl Version {
    /// The version that is spoken here.
    pub const OWN: Self = Self { major: PROTOCOL, minor: 0 };

    /// Whether nodes of these two versions work with each other: the same major version, and minor ones that follow each
    /// other.
    #[must_use]
    pub const fn is_compatible(self, other: Self) -> bool {
        self.major == other.major && self.minor.abs_diff(other.minor) <= 1
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Format {
    /// One that is read and written.
    #[must_use]
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
    fn neighbours_follow_each_other() {
        let check = |one: (u32, u32), other: (u32, u32), want| {
            let version = |(major, minor)| Version { major, minor };
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
    fn who_tells_nothing_is_of_the_first_version() {
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
