//! Events of a tail, and the new records among them.

use std::collections::VecDeque;

use crate::match_buffer::{RecordRef, SealedMatches};
use crate::scatter::BatchSlice;
use crate::stats::MissingReason;

/// One event of a tail.
#[derive(Debug)]
#[non_exhaustive]
pub enum TailEvent {
    /// New matching records of one node.
    Records(TailRecords),
    /// The reader was too slow, so records of a node were skipped.
    Skipped {
        /// Address of the node; `None` if it is the only one.
        address: Option<String>,
        /// Skipped bytes of its queue, whether they match or not; 0 for a client with a label scope, as they are of all streams.
        bytes: u64,
    },
    /// A node is no longer followed: records that it accepts are not shown.
    Lost {
        /// Its address.
        address: String,
        /// Why.
        reason: MissingReason,
    },
    /// A node is followed from now on. Records that it accepted before are not shown.
    Joined {
        /// Its address.
        address: String,
    },
}

/// New records of one node.
#[derive(Debug)]
pub struct TailRecords(RecordsSource);

#[derive(Debug)]
enum RecordsSource {
    Local(Box<SealedMatches>),
    Cluster(VecDeque<BatchSlice>),
}

impl TailRecords {
    pub(crate) fn local(matches: SealedMatches) -> Self {
        Self(RecordsSource::Local(Box::new(matches)))
    }

    pub(crate) fn cluster(slices: Vec<BatchSlice>) -> Self {
        Self(RecordsSource::Cluster(slices.into()))
    }

    /// Passes the next record to `visit` and returns its result; `None` if none is left.
    pub fn visit_next<R>(&mut self, visit: impl FnOnce(RecordRef<'_>) -> R) -> Option<R> {
        match &mut self.0 {
            RecordsSource::Local(matches) => matches.visit_next(visit),
            RecordsSource::Cluster(slices) => {
                let first = slices.pop_front()?;
                let (record, rest) = first.split_first();
                if let Some(rest) = rest {
                    slices.push_front(rest);
                }
                record.records().next().map(visit)
            }
        }
    }
}
