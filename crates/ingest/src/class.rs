//! The class of a queue segment: the durability of its records. It is part of the segment's id, hence of the file name, and
//! survives any damage to the contents.

use bucksaw_record::{Id, Millis, Producer};

use crate::append::Durability;

/// The class of a queue segment. Its number is the sequence number of the segment's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentClass {
    /// Made by a version without seals: 0.
    Unsealed,
    /// Acknowledged when written: 1.
    Fast,
    /// Acknowledged when synced, renamed when the seal is synced: 2.
    Durable,
    /// Acknowledged when stored: 3.
    Bulk,
}

impl SegmentClass {
    /// The id of a new segment.
    pub(crate) fn segment_id(self, now: Millis, drawn: u64) -> Id {
        let number = match self {
            Self::Unsealed => 0,
            Self::Fast => 1,
            Self::Durable => 2,
            Self::Bulk => 3,
        };
        Id::new(now, Producer::random(drawn), number)
    }

    /// The class of a segment. An unknown number counts as the strictest class.
    pub(crate) fn of(segment: Id) -> Self {
        match segment.sequence() {
            0 => Self::Unsealed,
            1 => Self::Fast,
            3 => Self::Bulk,
            _ => Self::Durable,
        }
    }

    /// Whether a file named `pending` must end in its seal, given whether unsynced writes may be lost.
    pub(crate) fn must_be_sealed(self, may_have_lost_writes: bool) -> bool {
        match self {
            Self::Unsealed => false,
            Self::Durable => true,
            Self::Fast | Self::Bulk => !may_have_lost_writes,
        }
    }
}

impl From<Durability> for SegmentClass {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Fast => Self::Fast,
            Durability::Durable => Self::Durable,
            Durability::Bulk => Self::Bulk,
        }
    }
}
