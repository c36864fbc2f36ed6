//! Damaged segments, and the time ranges in which answers may lack records because of them.
//!
//! The intact frames of a damaged segment are still read. When stores have them, or if none can be read, the file is renamed
//! `damaged` and kept for inspection.

use std::path::Path;
use std::sync::Arc;

use bucksaw_record::Id;
use bucksaw_segment::queue::Seal;
use tracing::warn;

use crate::append::IngestError;
use crate::damaged_file::{DamagedQueueFile, seal_span};
use crate::lock::lock;
use crate::queue::Queue;
use crate::segment::{QueueSegment, SegmentState};
use crate::segment_file::FileTarget;

impl Queue {
    /// Files from which records are missing: quarantined ones, and damaged ones that are still read.
    #[must_use]
    pub fn damaged_files(&self) -> Vec<DamagedQueueFile> {
        let mut all = lock(&self.damaged_files).clone();
        for segment in self.readable_segments() {
            let contents = segment.contents();
            if !contents.damage.is_empty() {
                all.push(DamagedQueueFile::new(&contents.file.path, contents.span));
            }
        }
        all
    }

    /// The names of [`Self::damaged_files`].
    #[must_use]
    pub fn damaged_file_names(&self) -> Vec<String> {
        self.damaged_files().into_iter().map(|file| file.name).collect()
    }

    /// Moves a segment whose file was renamed `damaged` from the readable segments to the damaged files.
    pub(crate) fn record_quarantined(&self, segment: &QueueSegment) {
        let damaged = {
            let contents = segment.contents();
            DamagedQueueFile::new(&contents.file.path, contents.span)
        };
        lock(&self.damaged_files).push(damaged);
        lock(&self.segments).remove(&segment.id());
    }

    /// Quarantines a segment whose file cannot be read: the file is renamed `damaged` and kept, and answers report it.
    pub(crate) fn quarantine(&self, segment: &QueueSegment) {
        let callbacks = {
            let mut contents = segment.contents();
            contents.state = SegmentState::Committed;
            std::mem::take(&mut contents.on_commit)
        };
        self.move_file(segment, FileTarget::Quarantined);
        callbacks
            .into_iter()
            .for_each(|on_ack| on_ack(Err(IngestError::Io("the segment cannot be read back".to_owned()))));
    }

    /// Quarantines an unreadable file that was found at the start.
    pub(crate) fn quarantine_file(&self, path: &Path) {
        let aside = path.with_extension("damaged");
        if let Err(error) = self.env.fs.rename(path, &aside) {
            warn!(path = %path.display(), %error, "cannot rename a damaged queue segment");
        }
        self.record_damaged_file(&aside);
    }

    /// Records a file that is named `damaged`.
    pub(crate) fn record_damaged_file(&self, path: &Path) {
        let id = path.file_name().and_then(|name| name.to_str()?.split_once('.')?.0.parse::<Id>().ok());
        let seal = self.env.fs.open(path).ok().zip(id).and_then(|(file, id)| {
            let size = file.size().ok()?;
            Seal::find(&*file, path, id, size).ok()?
        });
        lock(&self.damaged_files).push(DamagedQueueFile::new(path, seal.as_ref().and_then(seal_span)));
    }

    /// Scans closed segments of which a reader could not read a frame. An active segment waits until it is closed, because its
    /// contents still change.
    pub(crate) fn inspect_failed_reads(&self, segments: &[Arc<QueueSegment>]) {
        let closed = segments.iter().filter(|segment| segment.state() != SegmentState::Active);
        for segment in closed.filter(|segment| segment.take_read_failure()) {
            if let Err(error) = self.inspect(segment.id())
                && let Some(suppressed) = self.may_log(|errors| &errors.read)
            {
                warn!(segment = %segment.id(), %error, suppressed, "a queue segment cannot be read; retrying");
            }
        }
    }
}
