//! Which exchanges of data the versions of two nodes allow.
//!
//! Segments are fetched and replicated only between compatible versions, and only in a format that the receiver reads.
//! Otherwise records stay where they are, where queries find them.

use crate::Facts;

impl Facts {
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
    use crate::version::{Format, Formats};

    fn facts(minor: u32, queue: Format, stored: Format) -> Facts {
        let roles = Roles { ingest: true, store: true };
        Facts { protocol_minor: minor, formats: Formats { queue, stored }, roles, ..Facts::new(Id::MIN) }
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
}
