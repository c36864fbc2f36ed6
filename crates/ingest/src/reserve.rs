//! Reservations: a store takes pending segments, commits them or gives them back; one that is never heard of again loses
//! them.
//!
//! A reservation keeps stores from doing the same work twice, and nothing rests on it: whoever has stored a segment's
//! records may commit it, also when the reservation has ended and another store has it by now.

use std::time::Duration;

use bucksaw_record::Id;
use tracing::{error, warn};

use crate::queue::Queue;
use crate::segment::{Lease, QueueSegment, SegmentState, SegmentView};

/// How often a segment may fail to be read before it is set aside, so that it does not hold up the others.
const READ_ATTEMPTS_MAX: u32 = 5;

impl Queue {
    /// Reserves the oldest pending segments for the store of this node, as many as hold `text_bytes` together; at least one
    /// if there is one.
    #[must_use]
    pub fn reserve(&self, text_bytes: u64) -> Vec<SegmentView> {
        self.reserve_with(None, text_bytes)
    }

    /// The same for the store of another node. The segments are pending again after `time`, or when
    /// [`Self::release_all_of`] says that the holder is gone.
    #[must_use]
    pub fn lease(&self, holder: Id, time: Duration, text_bytes: u64) -> Vec<SegmentView> {
        let until = self.env.clock.uptime().saturating_add(time);
        self.reserve_with(Some(Lease { holder, expires_at: until }), text_bytes)
    }

    fn reserve_with(&self, lease: Option<Lease>, text_bytes: u64) -> Vec<SegmentView> {
        self.seal_flushed();
        let mut reserved = Vec::new();
        let mut sum = 0;
        for segment in self.readable_segments() {
            let mut contents = segment.contents();
            if contents.state != SegmentState::Pending {
                continue;
            }
            if sum >= text_bytes {
                break;
            }
            contents.state = SegmentState::Reserved;
            contents.lease = lease;
            sum += contents.reach.text_bytes;
            drop(contents);
            reserved.push(segment.view());
        }
        reserved
    }

    /// Gives segments back that this node's store has reserved.
    pub fn release(&self, ids: &[Id]) {
        self.segments_by_id(ids).iter().for_each(|segment| self.release_if(segment, |lease| lease.is_none()));
    }

    /// Gives segments back that another node has reserved, and has no longer if its reservation ended.
    pub fn release_lease(&self, holder: Id, ids: &[Id]) {
        let held = |lease: Option<Lease>| lease.is_some_and(|lease| lease.holder == holder);
        self.segments_by_id(ids).iter().for_each(|segment| self.release_if(segment, held));
    }

    /// Gives all segments back that a node has reserved: it is gone.
    pub fn release_leases_of(&self, holder: Id) {
        let held = |lease: Option<Lease>| lease.is_some_and(|lease| lease.holder == holder);
        self.readable_segments().iter().for_each(|segment| self.release_if(segment, held));
    }

    /// Ends the reservation of a segment, its time being over.
    pub(crate) fn expire_lease(&self, segment: &QueueSegment, now: Duration) {
        self.metrics.expired_leases.inc();
        self.release_if(segment, |lease| lease.is_some_and(|lease| lease.expires_at <= now));
    }

    fn release_if(&self, segment: &QueueSegment, matches: impl Fn(Option<Lease>) -> bool) {
        let mut contents = segment.contents();
        if contents.state == SegmentState::Reserved && matches(contents.lease) {
            contents.state = SegmentState::Pending;
            contents.lease = None;
            drop(contents);
            self.pending_notify.notify_waiters();
        }
    }

    /// A store could not read a segment. It is looked through for its whole frames, so that these can be taken; when even
    /// that fails for some time, it is set aside.
    pub fn record_unreadable(&self, id: Id) {
        let Some(segment) = self.segments_by_id(&[id]).pop() else { return };
        let tries = {
            let mut contents = segment.contents();
            contents.failed_reads += 1;
            contents.failed_reads
        };
        if tries < READ_ATTEMPTS_MAX {
            match self.inspect(id) {
                Ok(()) => {}
                Err(error) => {
                    if let Some(suppressed) = self.may_log(|errors| &errors.read) {
                        warn!(segment = %id, %error, suppressed, "a queue segment cannot be read: it is tried again");
                    }
                }
            }
            return;
        }
        if let Some(suppressed) = self.may_log(|errors| &errors.quarantine) {
            error!(segment = %id, suppressed, "a queue segment cannot be read: it is set aside as damaged");
        }
        self.quarantine(&segment);
    }
}
