//! Group commit: one sync for all that was written since the last.
//!
//! While one group is being synced the next gathers behind it, so a disk that takes milliseconds to sync still takes
//! hundreds of megabytes a second.
//!
//! After a failed sync the kernel may have dropped the pages and call them clean: neither that file nor a later success
//! on it may be trusted for what was not synced before. Those records are still in memory; they are written to another
//! file, and acknowledged from there. <https://wiki.postgresql.org/wiki/Fsync_Errors> tells the story.

use std::sync::Arc;

use tracing::{error, warn};

use crate::append::Refusal;
use crate::lane::Waiting;
use crate::queue::Queue;
use crate::room::Halt;
use crate::segment::Segment;
use crate::stall::Begun;

/// How many files are tried for a record before its client is told that it cannot be kept.
const TRIES_MAX: u32 = 3;

impl Queue {
    /// Resolves when something waits for a sync.
    pub async fn group(&self) {
        self.durable.wait().await;
    }

    /// Syncs what waits, and tells those who wait. Returns whether there was anything. For one thread at a time.
    pub fn commit_group(&self) -> bool {
        let (group, closing) = {
            let mut inner = self.durable.lock();
            (std::mem::take(&mut inner.waiting), std::mem::take(&mut inner.closing))
        };
        if group.is_empty() && closing.is_empty() {
            return false;
        }
        let _begun = Begun::now(&self.stall.commit, self.doors.clock.uptime());
        let mut segments: Vec<Arc<Segment>> = Vec::new();
        for segment in group.iter().map(|waiting| &waiting.segment).chain(&closing) {
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
                if Halt::of(&error) == Halt::Full {
                    self.note_failure(Halt::Full);
                }
                self.metrics.sync_failed.inc();
                failed.push(segment);
            }
        }
        let (lost, kept): (Vec<Waiting>, Vec<Waiting>) =
            group.into_iter().partition(|waiting| failed.iter().any(|segment| segment.id() == waiting.segment.id()));
        // The name says that the seal is there, so the seal is durable first.
        let is_kept = |segment: &&Arc<Segment>| failed.iter().all(|failed| failed.id() != segment.id());
        let renamed = closing.iter().filter(is_kept).filter(|segment| self.rename_closed(segment)).count();
        self.durable.lock().waiting_bytes -= kept.iter().map(|waiting| waiting.body.len() as u64).sum::<u64>();
        kept.into_iter().for_each(|waiting| (waiting.done)(Ok(())));
        if renamed > 0 {
            self.sync_names();
        }
        if !failed.is_empty() {
            self.write_again(&failed, lost);
        }
        true
    }

    /// Makes names of closed segments durable. A power cut would bring back the name of a segment that is still written, and
    /// with that name damage passes for an end that was not synced.
    pub(crate) fn sync_names(&self) {
        if let Err(error) = self.doors.fs.sync_dir(&self.dir)
            && let Some(suppressed) = self.may_log(|errors| &errors.sync)
        {
            warn!(dir = %self.dir.display(), %error, suppressed, "cannot sync the queue's directory: the next segment does it");
        }
    }

    fn sync(&self, segment: &Segment) -> std::io::Result<()> {
        let started = self.doors.clock.uptime();
        let end = segment.end();
        segment.file().sync()?;
        if !segment.contents().name_synced {
            self.doors.fs.sync_dir(&self.dir)?;
            segment.contents().name_synced = true;
        }
        segment.set_synced_end(end);
        self.metrics.syncs.inc();
        self.metrics.sync_seconds.observe((self.doors.clock.uptime() - started).as_secs_f64());
        Ok(())
    }

    fn write_again(&self, failed: &[Arc<Segment>], mut lost: Vec<Waiting>) {
        let mut told = Vec::new();
        let mut inner = self.durable.lock();
        let is_failed = |segment: &Segment| failed.iter().any(|failed| failed.id() == segment.id());
        // What was appended to those files meanwhile is no safer.
        let (more, kept): (Vec<Waiting>, Vec<Waiting>) =
            std::mem::take(&mut inner.waiting).into_iter().partition(|waiting| is_failed(&waiting.segment));
        inner.waiting = kept;
        lost.extend(more);
        failed.iter().for_each(|segment| segment.contents().untrusted = true);
        if inner.open.as_ref().is_some_and(|open| is_failed(&open.segment)) {
            self.seal(&mut inner);
        }
        for mut waiting in lost {
            waiting.tries += 1;
            let written = match waiting.tries {
                ..=TRIES_MAX => self.write(&mut inner, &waiting.labels, waiting.header, &[&waiting.body]),
                _ => {
                    let halt = Halt::Failing("the disk fails to sync".to_owned());
                    self.note_failure(halt.clone());
                    Err(halt.into())
                }
            };
            match written {
                Ok((segment, header)) => inner.waiting.push(Waiting { segment, header, ..waiting }),
                Err(refusal) => {
                    inner.waiting_bytes -= waiting.body.len() as u64;
                    // The records lie in the file that was not synced, and may be found again: nobody is told that they are not.
                    let why = match refusal {
                        Refusal::Io(why) => why,
                        other => other.to_string(),
                    };
                    told.push((waiting.done, Refusal::Io(why)));
                }
            }
        }
        drop(inner);
        // Only now that its records can be read elsewhere is the untrusted part of a file given up.
        for segment in failed {
            segment.set_end(segment.synced_end().max(bucksaw_segment::queue::HEADER_LEN as u64));
        }
        told.into_iter().for_each(|(done, refusal)| done(Err(refusal)));
    }
}
