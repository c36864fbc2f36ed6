//! Damaged segments, and the time ranges in which answers may lack records because of them.
//!
//! The intact frames of a damaged segment are still read. When stores have them, or if none can be read, the file is renamed
//! `damaged` and kept for inspection.

use std::path::Path;
use std::sync::Arc;

use bucksaw_env::lock;
use bucksaw_segment::queue::Seal;
use tracing::warn;

use crate::append::IngestError;
use crate::queue::Queue;
use crate::queue_file::{DamagedQueueFile, parse_name, seal_span};
use crate::segment::{QueueSegment, SegmentState};
use crate::segment_file::FileTarget;

impl Queue {
    /// Files from which records are missing: quarantined ones, and damaged ones that are still read.
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
        let error = IngestError::Io("the segment cannot be read back".to_owned());
        callbacks.into_iter().for_each(|on_ack| on_ack(Err(error.clone())));
    }

    /// Quarantines an unreadable file that was found at the start.
    pub(crate) fn quarantine_file(&self, path: &Path) {
        let damaged = path.with_extension("damaged");
        if let Err(error) = self.env.fs.rename(path, &damaged) {
            warn!(path = %path.display(), %error, "cannot rename a damaged queue segment");
        }
        self.record_damaged_file(&damaged);
    }

    /// Records a file that is named `damaged`.
    pub(crate) fn record_damaged_file(&self, path: &Path) {
        let span = || {
            let (id, _) = parse_name(path.file_name()?.to_str()?)?;
            let file = self.env.fs.open(path).ok()?;
            seal_span(&Seal::find(&*file, path, id, file.size().ok()?).ok()??)
        };
        lock(&self.damaged_files).push(DamagedQueueFile::new(path, span()));
    }

    /// Scans closed segments of which a reader could not read a frame. An active segment waits until it is closed, because its
    /// contents still change.
    pub(crate) fn inspect_failed_reads(&self, segments: &[Arc<QueueSegment>]) {
        let closed = segments.iter().filter(|segment| segment.state() != SegmentState::Active);
        closed.filter(|segment| segment.take_read_failure()).for_each(|segment| self.inspect_or_log(segment.id()));
    }
}
