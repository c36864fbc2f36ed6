//! Renames and removes the files of segments, in the order of [`segment_file`](crate::segment_file).

use std::io::ErrorKind;
use std::path::Path;

use tracing::warn;

use crate::lock::lock;
use crate::queue::Queue;
use crate::segment::QueueSegment;
use crate::segment_file::FileTarget;

impl Queue {
    /// Renames or removes the file of a segment, or leaves that to the thread that is renaming it. Returns whether this
    /// call reached `target`. A failure is logged and leaves the file as it is; a removal may be requested again.
    pub(crate) fn move_file(&self, segment: &QueueSegment, target: FileTarget) -> bool {
        if !segment.contents().file.request(target) {
            return false;
        }
        let mut is_reached = false;
        loop {
            let step = segment.contents().file.next_step();
            let Some((step, path)) = step else { return is_reached };
            let is_done = match step.extension() {
                Some(extension) => self.rename_file(segment, &path, extension),
                None => self.remove_file(segment, &path),
            };
            if step == FileTarget::Quarantined {
                self.record_quarantined(segment);
            }
            is_reached = is_done && step == target;
        }
    }

    fn rename_file(&self, segment: &QueueSegment, path: &Path, extension: &str) -> bool {
        let renamed = path.with_extension(extension);
        match self.env.fs.rename(path, &renamed) {
            Ok(()) => {
                segment.contents().file.path = renamed.into();
                true
            }
            Err(error) => {
                if let Some(suppressed) = self.may_log(|logs| &logs.rename) {
                    warn!(path = %path.display(), %error, suppressed, "cannot rename a queue segment");
                }
                false
            }
        }
    }

    fn remove_file(&self, segment: &QueueSegment, path: &Path) -> bool {
        match self.env.fs.remove(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                if let Some(suppressed) = self.may_log(|logs| &logs.remove) {
                    warn!(path = %path.display(), %error, suppressed, "cannot remove a queue segment");
                }
                false
            }
            _ => {
                lock(&self.segments).remove(&segment.id());
                true
            }
        }
    }
}
