//! The newest frames in memory, for a reader that wants each frame once, soon after its append.
//!
//! It saves that reader the read of the file. Nothing depends on it: a frame that is gone from here is in its file.

use std::collections::VecDeque;
use std::ops::Range;

use bucksaw_record::Id;
use bucksaw_segment::FrameHeader;

/// A record frame as it was appended.
#[derive(Debug)]
pub struct RecentFrame {
    /// Its header in the file.
    pub header: FrameHeader,
    /// The end of the frame in the file.
    pub end: u64,
    /// Room for a header of [`FrameHeader::LEN`] bytes, and the body.
    pub bytes: Vec<u8>,
    segment: Id,
    /// Where the append began in the file: at the frame, or at that of its stream.
    start: u64,
}

/// Frames that were not taken yet, oldest first. They take a limited amount of memory.
#[derive(Debug, Default)]
pub(crate) struct RecentFrames {
    frames: VecDeque<RecentFrame>,
    bytes: usize,
}

impl RecentFrames {
    /// Keeps a copy of what was appended to a segment in the range `file`, if it fits into `bytes_max`; older frames give way.
    pub(crate) fn push(
        &mut self,
        bytes_max: usize,
        (segment, file): (Id, Range<u64>),
        header: FrameHeader,
        body: &[&[u8]],
    ) {
        let length = header.frame_len() as usize;
        if length > bytes_max {
            return;
        }
        while self.bytes + length > bytes_max && self.pop().is_some() {}
        let mut bytes = Vec::with_capacity(length);
        bytes.resize(FrameHeader::LEN, 0);
        body.iter().for_each(|part| bytes.extend_from_slice(part));
        self.bytes += bytes.len();
        self.frames.push_back(RecentFrame { header, end: file.end, bytes, segment, start: file.start });
    }

    /// Takes the frame at this place, and drops those that were appended before it.
    pub(crate) fn take(&mut self, segment: Id, start: u64) -> Option<RecentFrame> {
        let place = self.frames.iter().position(|frame| frame.segment == segment && frame.start == start)?;
        (0..place).for_each(|_| drop(self.pop()));
        self.pop()
    }

    fn pop(&mut self) -> Option<RecentFrame> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.bytes.len();
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::Millis;
    use bucksaw_segment::FrameKind;

    use super::*;

    const BODY: &[&[u8]] = &[b"meta", b"line\n"];
    const LENGTH: u64 = (FrameHeader::LEN + 9) as u64;
    const SEGMENT: Id = Id::MAX;

    fn push(recent: &mut RecentFrames, bytes_max: u64, start: u64) {
        let header = FrameHeader {
            body_len: 9,
            row_meta_len: 4,
            first_id: SEGMENT,
            count: 1,
            stream: 0,
            accepted: Millis(0),
            kind: FrameKind::Records,
            layout_bits: 0,
        };
        recent.push(bytes_max as usize, (SEGMENT, start..start + LENGTH), header, BODY);
    }

    #[test]
    fn frames_are_taken_once_and_older_ones_give_way() {
        let mut recent = RecentFrames::default();
        for number in 0..4 {
            push(&mut recent, 3 * LENGTH, number * LENGTH);
        }
        assert!(recent.take(SEGMENT, 0).is_none(), "the first gave way to the fourth");
        assert!(recent.take(SEGMENT, LENGTH + 1).is_none());
        assert!(recent.take(Id::from_bits(0), LENGTH).is_none());
        let third = recent.take(SEGMENT, 2 * LENGTH).unwrap();
        assert_eq!((third.end, &third.bytes[FrameHeader::LEN..]), (3 * LENGTH, &b"metaline\n"[..]));
        assert!(recent.take(SEGMENT, LENGTH).is_none(), "the second was before it");
        assert_eq!(recent.take(SEGMENT, 3 * LENGTH).unwrap().end, 4 * LENGTH);
        assert_eq!((recent.bytes, recent.frames.len()), (0, 0));
    }

    #[test]
    fn a_frame_that_does_not_fit_is_not_kept() {
        let mut recent = RecentFrames::default();
        push(&mut recent, LENGTH - 1, 0);
        assert!(recent.frames.is_empty());
    }
}
