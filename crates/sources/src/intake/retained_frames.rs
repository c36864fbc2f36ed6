//! Frames of a connection that the queue refused.

use std::collections::VecDeque;

use bucksaw_ingest::IngestError;

use super::durability_wait::DurabilityWait;
use super::record_stream::{FrameMeta, RecordStream};

/// Refused frames in the order of their records. They keep their ids, so that nothing is stored twice if a refused append
/// reached the disk.
#[derive(Debug, Default)]
pub(super) struct RetainedFrames {
    frames: VecDeque<RetainedFrame>,
}

#[derive(Debug)]
struct RetainedFrame {
    stream: RecordStream,
    meta: FrameMeta<'static>,
    text: Vec<u8>,
}

impl RetainedFrames {
    pub(super) fn records(&self) -> u64 {
        self.frames.iter().map(|frame| u64::from(frame.meta.count)).sum()
    }

    /// Appends a frame, or keeps it if the queue refuses it or an earlier one. Returns the number of appended records.
    pub(super) fn append(
        &mut self,
        stream: RecordStream,
        meta: FrameMeta<'static>,
        text: &[&[u8]],
        durability_wait: &DurabilityWait,
    ) -> u64 {
        if self.frames.is_empty() && stream.append_counted(&meta, text, durability_wait).is_ok() {
            return u64::from(meta.count);
        }
        self.frames.push_back(RetainedFrame { stream, meta, text: text.concat() });
        0
    }

    /// Appends the kept frames, and counts their records in `accepted`.
    ///
    /// # Errors
    /// The first refusal. The frame and those behind it are kept.
    pub(super) fn append_again(
        &mut self,
        durability_wait: &DurabilityWait,
        accepted: &mut u64,
    ) -> Result<(), IngestError> {
        while let Some(RetainedFrame { stream, meta, text }) = self.frames.front() {
            stream.append_counted(meta, &[text], durability_wait)?;
            *accepted += u64::from(meta.count);
            self.frames.pop_front();
        }
        Ok(())
    }
}
