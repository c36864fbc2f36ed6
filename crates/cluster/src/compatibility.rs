//! Which data two nodes may exchange, by their versions.
//!
//! Segments are fetched and replicated only between compatible versions, and only in a format that the receiver reads.
//! Otherwise records stay where they are, where queries find them.

use crate::Facts;

impl Facts {
    /// Whether another node may fetch segments from this one's queue.
    pub fn can_serve_queue_to(&self, other: &Self) -> bool {
        self.protocol_version().is_compatible(other.protocol_version())
            && self.formats.queue.writes <= other.formats.queue.reads
    }

    /// Whether this node may replicate stored segments to another.
    pub fn can_replicate_to(&self, other: &Self) -> bool {
        self.protocol_version().is_compatible(other.protocol_version())
            && self.formats.stored.writes <= other.formats.stored.reads
    }

    /// Which exchange of data the versions of another node prevent, as a phrase that follows its name; `None` without any.
    pub(crate) fn version_skew_with(&self, other: &Self) -> Option<String> {
        let (own, theirs) = (self.protocol_version(), other.protocol_version());
        if !own.is_compatible(theirs) {
            return Some(format!(
                "has protocol version {theirs}, this node {own}: no segments are fetched or replicated until the versions are \
                 at most one minor version apart"
            ));
        }
        let is_store_pair = self.roles.store && other.roles.store;
        let (ours, others) = (self.formats, other.formats);
        if self.roles.store && !other.can_serve_queue_to(self) {
            let (writes, reads) = (others.queue.writes, ours.queue.reads);
            Some(format!("has queue segments of format {writes}, this node reads up to {reads}: they are not fetched"))
        } else if other.roles.store && !self.can_serve_queue_to(other) {
            let (writes, reads) = (ours.queue.writes, others.queue.reads);
            Some(format!(
                "reads queue segments up to format {reads}, this node writes {writes}: it fetches none of them"
            ))
        } else if is_store_pair && !self.can_replicate_to(other) {
            let (writes, reads) = (ours.stored.writes, others.stored.reads);
            Some(format!(
                "reads stored segments up to format {reads}, this node writes {writes}: it receives no replicas"
            ))
        } else if is_store_pair && !other.can_replicate_to(self) {
            let (writes, reads) = (others.stored.writes, ours.stored.reads);
            Some(format!(
                "writes stored segments of format {writes}, this node reads up to {reads}: it sends no replicas"
            ))
        } else {
            None
        }
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
    fn segments_are_exchanged_only_if_the_receiver_reads_their_format() {
        let (one, two, reads_two) = (Format::new(1), Format::new(2), Format { reads: 2, writes: 1 });
        let check = |one: Facts, other: Facts, fetches: bool, replicates: bool, skew: Option<&str>| {
            assert_eq!(
                (one.can_serve_queue_to(&other), one.can_replicate_to(&other)),
                (fetches, replicates),
                "{one:?} {other:?}"
            );
            assert_eq!(one.version_skew_with(&other).as_deref(), skew);
        };
        check(facts(1, one, one), facts(2, one, one), true, true, None);
        // The version that introduces a format reads it, and the next writes it.
        check(facts(1, one, one), facts(2, reads_two, reads_two), true, true, None);
        check(facts(2, reads_two, reads_two), facts(1, one, one), true, true, None);
        check(facts(3, two, two), facts(2, reads_two, reads_two), true, true, None);
        check(facts(2, reads_two, reads_two), facts(3, two, two), true, true, None);
        let far = "has protocol version 1.1, this node 1.3: no segments are fetched or replicated until the versions are at \
                   most one minor version apart";
        check(facts(3, two, two), facts(1, one, one), false, false, Some(far));
        check(facts(3, one, one), facts(1, one, one), false, false, Some(far));
        check(
            facts(2, two, one),
            facts(1, one, one),
            false,
            true,
            Some("reads queue segments up to format 1, this node writes 2: it fetches none of them"),
        );
        check(
            facts(2, one, two),
            facts(1, one, one),
            true,
            false,
            Some("reads stored segments up to format 1, this node writes 2: it receives no replicas"),
        );
        check(
            facts(1, one, one),
            facts(2, two, one),
            true,
            true,
            Some("has queue segments of format 2, this node reads up to 1: they are not fetched"),
        );
        check(
            facts(1, one, one),
            facts(2, one, two),
            true,
            true,
            Some("writes stored segments of format 2, this node reads up to 1: it sends no replicas"),
        );
    }

    #[test]
    fn ingest_nodes_need_not_read_stored_segments() {
        let (one, two) = (Format::new(1), Format::new(2));
        let mut ingest = facts(1, one, one);
        ingest.roles.store = false;
        assert_eq!(facts(2, one, two).version_skew_with(&ingest), None);
        assert_eq!(ingest.version_skew_with(&facts(2, one, two)), None);
    }
}
