//! Leases: a store reserves pending segments, and commits or releases them; the lease of a vanished store expires.
//!
//! A lease only prevents duplicate work. A store that has the records of a segment may commit it even if its lease has expired
//! and another store has leased the segment since.

use std::time::Duration;

use bucksaw_env::log_limited;

use bucksaw_record::Id;

use crate::queue::Queue;
use crate::segment::{Lease, QueueSegment, SegmentState, SegmentView};

/// A segment that could not be read this many times is quarantined, so that it does not block others.
const READ_ATTEMPTS_MAX: u32 = 5;

impl Queue {
    /// Reserves the oldest pending segments, of about `text_bytes` of text together and at least one, for the store of this
    /// node.
    #[must_use]
    pub fn reserve(&self, text_bytes: u64) -> Vec<SegmentView> {
        self.reserve_with(None, text_bytes)
    }

    /// Reserves segments for the store of another node. They are pending again after `time`, or after
    /// [`Self::release_leases_of`].
    #[must_use]
    pub fn lease(&self, holder: Id, time: Duration, text_bytes: u64) -> Vec<SegmentView> {
        let expires_at = self.env.clock.uptime().saturating_add(time);
        self.reserve_with(Some(Lease { holder, expires_at }), text_bytes)
    }

    fn reserve_with(&self, lease: Option<Lease>, text_bytes: u64) -> Vec<SegmentView> {
        self.bulk_slot.close_if(|active| active.contents().is_flushed);
        self.seal_closed(&self.bulk_slot);
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

    /// Releases segments that the store of this node reserved.
    pub fn release(&self, ids: &[Id]) {
        self.segments_by_id(ids).iter().for_each(|segment| self.release_if(segment, |lease| lease.is_none()));
    }

    /// Releases segments on which `holder` has a lease, so that any store may fetch them. Writes no file.
    pub fn release_lease(&self, holder: Id, ids: &[Id]) {
        let is_held = |lease: Option<Lease>| lease.is_some_and(|lease| lease.holder == holder);
        self.segments_by_id(ids).iter().for_each(|segment| self.release_if(segment, is_held));
    }

    /// Releases all segments of a node that has left or is down.
    pub fn release_leases_of(&self, holder: Id) {
        let is_held = |lease: Option<Lease>| lease.is_some_and(|lease| lease.holder == holder);
        self.readable_segments().iter().for_each(|segment| self.release_if(segment, is_held));
    }

    /// Releases a segment whose lease has expired.
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

    /// Handles a segment that a store could not read: it is scanned for intact frames, and quarantined after repeated failures.
    pub fn record_unreadable(&self, id: Id) {
        let Some(segment) = self.segments_by_id(&[id]).pop() else { return };
        let attempts = {
            let mut contents = segment.contents();
            contents.failed_reads += 1;
            contents.failed_reads
        };
        if attempts < READ_ATTEMPTS_MAX {
            return self.inspect_or_log(id);
        }
        log_limited!(self.log_limits, error, segment = %id, "a queue segment cannot be read: it is quarantined");
        self.quarantine(&segment);
    }

    /// [`Self::inspect`]; an error is logged.
    pub(crate) fn inspect_or_log(&self, id: Id) {
        if let Err(error) = self.inspect(id) {
            log_limited!(self.log_limits, warn, segment = %id, %error, "a queue segment cannot be read; retrying");
        }
    }
}
