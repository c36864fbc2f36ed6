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

use crate::{Facts, PROTOCOL};

/// Bounds of numbers that nodes tell, so that there is room for them in a datagram: more than there will be.
const MINOR_MAX: u32 = 999;
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
    fn is_valid(self) -> bool {
        Vec::from(self).iter().all(|number| *number <= FORMAT_MAX)
    }
}

impl Facts {
    /// What the node speaks.
    #[must_use]
    pub fn protocol_version(&self) -> Version {
        Version { major: self.protocol, minor: self.protocol_minor }
    }

    /// Whether what is told of versions is within its bounds.
    pub(crate) fn has_valid_versions(&self) -> bool {
        self.protocol_minor <= MINOR_MAX && self.formats.is_valid()
    }

    /// Whether another node may take segments from this one's queue.
    #[must_use]
    pub fn can_serve_queue_to(&self, other: &Self) -> bool {
        self.protocol_version().is_compatible(other.protocol_version())
            && self.formats.queue.writes <= other.formats.queue.reads
    }

    /// Whether another node may be given copies of what this one stores.
    #[must_use]
    pub fn can_replicate_to(&self, other: &Self) -> bool {
        self.protocol_version().is_compatible(other.protocol_version())
            && self.formats.stored.writes <= other.formats.stored.reads
    }

    /// What this node and another cannot do with each other, as it goes on after the other's name; `None` when there is
    /// nothing.
    #[must_use]
    pub fn version_skew_with(&self, other: &Self) -> Option<String> {
        let (own, theirs) = (self.protocol_version(), other.protocol_version());
        let (ours, others) = (self.formats, other.formats);
        let stores = self.roles.store && other.roles.store;
        if !own.is_compatible(theirs) {
            let words = "nothing is taken from it, and no copy given to it, until the versions are neighbours";
            return Some(format!(
                "speaks version {theirs} of what nodes say to each other, and this node {own}: {words}"
            ));
        }
        let unread = |what: &str, written: u32, read: u32, whose: [&str; 2]| {
            let [writer, reader] = whose;
            format!("{what} of format {written}, and {reader} up to {read}: {writer}")
        };
        if self.roles.store && !other.can_serve_queue_to(self) {
            let whose = ["it is not taken from", "this node reads them"];
            return Some(unread("has a queue with segments", others.queue.writes, ours.queue.reads, whose));
        }
        if other.roles.store && !self.can_serve_queue_to(other) {
            let whose = ["it takes none of them", "it reads them"];
            return Some(unread("meets segments in this node's queue", ours.queue.writes, others.queue.reads, whose));
        }
        if stores && !self.can_replicate_to(other) {
            let whose = ["it is given no copies", "it reads them"];
            return Some(unread("meets segments stored by this node", ours.stored.writes, others.stored.reads, whose));
        }
        if stores && !other.can_replicate_to(self) {
            let whose = ["it gives this node no copies", "this node reads them"];
            return Some(unread("stores segments", others.stored.writes, ours.stored.reads, whose));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::Id;

    use super::*;
    use crate::Roles;

    fn facts(minor: u32, queue: Format, stored: Format) -> Facts {
        let roles = Roles { ingest: true, store: true };
        Facts { protocol_minor: minor, formats: Formats { queue, stored }, roles, ..Facts::new(Id::MIN) }
    }

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
    fn a_file_is_handed_only_to_who_reads_it() {
        let (one, two, brings) = (Format::new(1), Format::new(2), Format { reads: 2, writes: 1 });
        let check = |one: Facts, other: Facts, hands: bool, copies: bool, words: Option<&str>| {
            assert_eq!(
                (one.can_serve_queue_to(&other), one.can_replicate_to(&other)),
                (hands, copies),
                "{one:?} {other:?}"
            );
            assert_eq!(one.version_skew_with(&other).as_deref(), words);
        };
        check(facts(1, one, one), facts(2, one, one), true, true, None);
        // The version that brings a format, between the one before and the one that writes it.
        check(facts(1, one, one), facts(2, brings, brings), true, true, None);
        check(facts(2, brings, brings), facts(1, one, one), true, true, None);
        check(facts(3, two, two), facts(2, brings, brings), true, true, None);
        check(facts(2, brings, brings), facts(3, two, two), true, true, None);
        let far = "speaks version 1.1 of what nodes say to each other, and this node 1.3: nothing is taken from it, and no copy \
                   given to it, until the versions are neighbours";
        check(facts(3, two, two), facts(1, one, one), false, false, Some(far));
        check(facts(3, one, one), facts(1, one, one), false, false, Some(far));
        check(
            facts(2, two, one),
            facts(1, one, one),
            false,
            true,
            Some("meets segments in this node's queue of format 2, and it reads them up to 1: it takes none of them"),
        );
        check(
            facts(2, one, two),
            facts(1, one, one),
            true,
            false,
            Some("meets segments stored by this node of format 2, and it reads them up to 1: it is given no copies"),
        );
        check(
            facts(1, one, one),
            facts(2, two, one),
            true,
            true,
            Some("has a queue with segments of format 2, and this node reads them up to 1: it is not taken from"),
        );
        check(
            facts(1, one, one),
            facts(2, one, two),
            true,
            true,
            Some("stores segments of format 2, and this node reads them up to 1: it gives this node no copies"),
        );
    }

    #[test]
    fn who_only_takes_in_need_not_read_what_is_stored() {
        let (one, two) = (Format::new(1), Format::new(2));
        let mut ingest = facts(1, one, one);
        ingest.roles.store = false;
        assert_eq!(facts(2, one, two).version_skew_with(&ingest), None);
        assert_eq!(ingest.version_skew_with(&facts(2, one, two)), None);
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
