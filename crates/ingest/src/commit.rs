//! Group commit: one sync for all records that were written since the last.
//!
//! While one group is synced, the next collects, so a disk whose sync takes milliseconds still accepts hundreds of megabytes
//! per second.
//!
//! After a failed sync the kernel may have dropped the pages and marked them clean. A later successful sync of that file
//! proves nothing for them. The records are still in memory; they are written to another file and acknowledged from there.
//! See <https://wiki.postgresql.org/wiki/Fsync_Errors>.

use std::sync::Arc;

use bucksaw_env::log_limited;

use crate::append::IngestError;
use crate::append_slot::{UnsyncedRecords, contains};
use crate::halt_reason::HaltReason;
use crate::queue::Queue;
use crate::segment::QueueSegment;

/// How many files a record is written to before its client receives an error.
const WRITE_ATTEMPTS_MAX: u32 = 3;

impl Queue {
    /// Resolves when records wait for a sync.
    pub async fn wait_unsynced(&self) {
        self.durable_slot.wait_unsynced().await;
    }

    /// Syncs what waits and acknowledges it. Returns whether anything waited. For one thread at a time.
    pub fn commit_group(&self) -> bool {
        let (records, segments) = self.durable_slot.begin_commit();
        if records.is_empty() {
            return false;
        }
        let _running = self.group_commit.start(self.env.clock.uptime());
        let mut failed = Vec::new();
        for segment in &segments {
            if let Err(error) = self.sync(segment) {
                log_limited!(self.log_limits, error, segment = %segment.id(), %error, "cannot sync a queue segment: its records are written again to another file");
                if HaltReason::of(&error) == HaltReason::DiskFull {
                    self.record_write_failure(HaltReason::DiskFull);
                }
                self.metrics.sync_failed.inc();
                failed.push(Arc::clone(segment));
            }
        }
        let (lost, synced): (Vec<UnsyncedRecords>, Vec<UnsyncedRecords>) =
            records.into_iter().partition(|waiting| contains(&failed, &waiting.segment));
        self.durable_slot.state().unsynced_bytes -= synced.iter().map(|waiting| waiting.body.len() as u64).sum::<u64>();
        synced.into_iter().for_each(|waiting| (waiting.on_ack)(Ok(())));
        if !failed.is_empty() {
            self.rewrite_unsynced(&failed, lost);
        }
        self.durable_slot.end_commit(&segments);
        true
    }

    /// Makes the names of closed segments durable: syncs the queue's directory, and logs a failure. Without this sync, a power cut can restore the name `active`, under which
    /// damage counts as an end that was not synced.
    pub(crate) fn sync_dir(&self) {
        if let Err(error) = self.env.fs.sync_dir(&self.dir) {
            log_limited!(self.log_limits, warn, dir = %self.dir.display(), %error, "cannot sync the queue's directory: the next segment does it");
        }
    }

    fn sync(&self, segment: &QueueSegment) -> std::io::Result<()> {
        let started = self.env.clock.uptime();
        let end = segment.end();
        segment.file.sync()?;
        if !segment.contents().is_name_synced {
            self.env.fs.sync_dir(&self.dir)?;
            segment.contents().is_name_synced = true;
        }
        segment.set_synced_end(end);
        self.metrics.syncs.inc();
        self.metrics.sync_seconds.observe((self.env.clock.uptime() - started).as_secs_f64());
        Ok(())
    }

    /// Writes the records of files whose sync failed to other files.
    fn rewrite_unsynced(&self, failed: &[Arc<QueueSegment>], mut unsynced: Vec<UnsyncedRecords>) {
        let slot = &self.durable_slot;
        let mut failures = Vec::new();
        let mut writer = slot.writer();
        // Records that were appended to those files meanwhile are affected, too.
        let appended_meanwhile: Vec<UnsyncedRecords> =
            slot.state().unsynced.extract_if(.., |waiting| contains(failed, &waiting.segment)).collect();
        unsynced.extend(appended_meanwhile);
        failed.iter().for_each(|segment| segment.contents().has_failed_sync = true);
        if writer.as_ref().is_some_and(|active| contains(failed, &active.segment)) {
            slot.close(&mut writer);
        }
        for mut waiting in unsynced {
            waiting.attempts += 1;
            let written = if waiting.attempts > WRITE_ATTEMPTS_MAX {
                Err(HaltReason::Failing("the disk fails to sync".to_owned()))
            } else {
                let body = &[&waiting.body[..]];
                self.write(slot, &mut writer, &waiting.labels, waiting.header, body)
                    .map_err(|error| HaltReason::of(&error))
            };
            match written {
                Ok((segment, header)) => slot.state().unsynced.push(UnsyncedRecords { segment, header, ..waiting }),
                Err(reason) => {
                    slot.state().unsynced_bytes -= waiting.body.len() as u64;
                    failures.push((waiting.on_ack, reason));
                }
            }
        }
        drop(writer);
        self.seal_closed(slot);
        // The untrusted part of a file is hidden only now, when its records are readable elsewhere.
        for segment in failed {
            segment.set_end(segment.synced_end().max(bucksaw_segment::queue::HEADER_LEN as u64));
        }
        for (on_ack, reason) in failures {
            self.record_write_failure(reason.clone());
            // The file that was not synced has the records, and they may be found again: they are not reported as refused.
            let reason = match IngestError::from(reason) {
                IngestError::Io(reason) => reason,
                other => other.to_string(),
            };
            on_ack(Err(IngestError::Io(reason)));
        }
    }
}
