//! Renames and removes the files of segments, in the order of [`segment_file`](crate::segment_file).

use std::io;
use std::path::Path;

use bucksaw_env::{lock, log_limited};

use crate::queue::Queue;
use crate::queue_file::remove_file;
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
            let moved = self.execute(segment, &path, step);
            if let Err(error) = &moved {
                log_limited!(self.log_limits, warn, path = %path.display(), target = ?step, %error, "cannot rename or remove a queue segment");
            }
            if step == FileTarget::Quarantined {
                self.record_quarantined(segment);
            }
            is_reached = moved.is_ok() && step == target;
        }
    }

    fn execute(&self, segment: &QueueSegment, path: &Path, step: FileTarget) -> io::Result<()> {
        if let Some(extension) = step.extension() {
            let renamed = path.with_extension(extension);
            self.env.fs.rename(path, &renamed)?;
            segment.contents().file.path = renamed.into();
        } else {
            remove_file(&self.env, path)?;
            lock(&self.segments).remove(&segment.id());
        }
        Ok(())
    }
}
