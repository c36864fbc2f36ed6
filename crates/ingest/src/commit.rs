//! Group commit: one sync for all records that were written since the last.
//!
//! While one group is synced, the next collects, so a disk whose sync takes milliseconds still accepts hundreds of megabytes
//! per second.
//!
//! After a failed sync the kernel may have dropped the pages and marked them clean. A later successful sync of that file
//! proves nothing for them. The records are still in memory; they are written to another file and acknowledged from there.
//! See <https://wiki.postgresql.org/wiki/Fsync_Errors>.

use std::sync::Arc;

use tracing::{error, warn};

use crate::append::IngestError;
use crate::append_slot::UnsyncedRecords;
use crate::halt_reason::HaltReason;
use crate::queue::Queue;
use crate::segment::QueueSegment;
use crate::stall::StallGuard;

/// How many files a record is written to before its client receives an error.
const WRITE_ATTEMPTS_MAX: u32 = 3;

impl Queue {
    /// Resolves when records or seals wait for a sync.
    pub async fn wait_unsynced(&self) {
        self.durable_slot.wait_unsynced().await;
    }

    /// Syncs what waits and acknowledges it. Returns whether anything waited. For one thread at a time.
    pub fn commit_group(&self) -> bool {
        let (records, sealed_segments) = {
            let mut inner = self.durable_slot.lock();
            (std::mem::take(&mut inner.unsynced), std::mem::take(&mut inner.sealed_unrenamed))
        };
        if records.is_empty() && sealed_segments.is_empty() {
            return false;
        }
        let _begun = StallGuard::start(&self.stall.commit, self.env.clock.uptime());
        let mut segments: Vec<Arc<QueueSegment>> = Vec::new();
        for segment in records.iter().map(|waiting| &waiting.segment).chain(&sealed_segments) {
            if segments.iter().all(|other| other.id() != segment.id()) {
                segments.push(Arc::clone(segment));
            }
        }
        let mut failed = Vec::new();
        for segment in segments {
            if let Err(error) = self.sync(&segment) {
                if let Some(suppressed) = self.may_log(|errors| &errors.sync) {
                    error!(segment = %segment.id(), %error, suppressed, "cannot sync a queue segment: its records are written again elsewhere");
                }
                if HaltReason::of(&error) == HaltReason::DiskFull {
                    self.record_write_failure(HaltReason::DiskFull);
                }
                self.metrics.sync_failed.inc();
                failed.push(segment);
            }
        }
        let (lost, synced): (Vec<UnsyncedRecords>, Vec<UnsyncedRecords>) =
            records.into_iter().partition(|waiting| failed.iter().any(|segment| segment.id() == waiting.segment.id()));
        // The name says that the file ends in its seal, so the seal is synced first.
        let is_kept = |segment: &&Arc<QueueSegment>| failed.iter().all(|failed| failed.id() != segment.id());
        let renamed = sealed_segments.iter().filter(is_kept).filter(|segment| self.rename_sealed(segment)).count();
        self.durable_slot.lock().unsynced_bytes -= synced.iter().map(|waiting| waiting.body.len() as u64).sum::<u64>();
        synced.into_iter().for_each(|waiting| (waiting.on_ack)(Ok(())));
        if renamed > 0 {
            self.sync_dir();
        }
        if !failed.is_empty() {
            self.rewrite_unsynced(&failed, lost);
        }
        true
    }

    /// Makes the names of closed segments durable. A power cut could bring back the name `active`, under which damage counts as
    /// an end that was not synced.
    pub(crate) fn sync_dir(&self) {
        if let Err(error) = self.env.fs.sync_dir(&self.dir)
            && let Some(suppressed) = self.may_log(|errors| &errors.sync)
        {
            warn!(dir = %self.dir.display(), %error, suppressed, "cannot sync the queue's directory: the next segment does it");
        }
    }

    fn sync(&self, segment: &QueueSegment) -> std::io::Result<()> {
        let started = self.env.clock.uptime();
        let end = segment.end();
        segment.file().sync()?;
        if !segment.contents().is_name_synced {
            self.env.fs.sync_dir(&self.dir)?;
            segment.contents().is_name_synced = true;
        }
        segment.set_synced_end(end);
        self.metrics.syncs.inc();
        self.metrics.sync_seconds.observe((self.env.clock.uptime() - started).as_secs_f64());
        Ok(())
    }

    fn rewrite_unsynced(&self, failed: &[Arc<QueueSegment>], mut unsynced: Vec<UnsyncedRecords>) {
        let mut failures = Vec::new();
        let mut inner = self.durable_slot.lock();
        let is_failed = |segment: &QueueSegment| failed.iter().any(|failed| failed.id() == segment.id());
        // Records that were appended to those files meanwhile are affected, too.
        let (more, others): (Vec<UnsyncedRecords>, Vec<UnsyncedRecords>) =
            std::mem::take(&mut inner.unsynced).into_iter().partition(|waiting| is_failed(&waiting.segment));
        inner.unsynced = others;
        unsynced.extend(more);
        failed.iter().for_each(|segment| segment.contents().has_failed_sync = true);
        if inner.active.as_ref().is_some_and(|open| is_failed(&open.segment)) {
            inner.close_active();
        }
        for mut waiting in unsynced {
            waiting.attempts += 1;
            if waiting.attempts > WRITE_ATTEMPTS_MAX {
                inner.unsynced_bytes -= waiting.body.len() as u64;
                failures.push((waiting.on_ack, HaltReason::Failing("the disk fails to sync".to_owned())));
                continue;
            }
            match self.write(&mut inner, &waiting.labels, waiting.header, &[&waiting.body]) {
                Ok((segment, header)) => inner.unsynced.push(UnsyncedRecords { segment, header, ..waiting }),
                Err(error) => {
                    inner.unsynced_bytes -= waiting.body.len() as u64;
                    failures.push((waiting.on_ack, HaltReason::of(&error)));
                }
            }
        }
        drop(inner);
        self.seal_closed(&self.durable_slot);
        // The untrusted part of a file is hidden only now, when its records are readable elsewhere.
        for segment in failed {
            segment.set_end(segment.synced_end().max(bucksaw_segment::queue::HEADER_LEN as u64));
        }
        for (on_ack, reason) in failures {
            self.record_write_failure(reason.clone());
            // The file that was not synced has the records, and they may be found again: they are not reported as refused.
            let why = match IngestError::from(reason) {
                IngestError::Io(why) => why,
                other => other.to_string(),
            };
            on_ack(Err(IngestError::Io(why)));
        }
    }
}
