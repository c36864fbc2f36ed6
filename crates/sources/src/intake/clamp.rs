//! Clamps times that a client states and that are more than an hour ahead of the node's clock.
//!
//! They become the time of arrival. Producer and sequence number stay, and with them the identity of the record. A framed
//! batch that is sent again after a lost acknowledgement gets a later time of arrival, because the first is not remembered.

use std::borrow::Cow;

use bucksaw_record::{Id, Millis};
use bucksaw_segment::{Frame, RowMeta};

use super::records::RecordTime;

/// The time column of some records, and the number of clamped times. Records without a time get `base`. No column if no
/// record has a time.
pub(super) fn clamp_times(times: &[Option<RecordTime>], base: Millis, now: Millis) -> (Option<Vec<RecordTime>>, u64) {
    if times.iter().all(Option::is_none) {
        return (None, 0);
    }
    let mut clamped_count = 0;
    let clamp = |time: &Option<RecordTime>| {
        time.map_or((base, 0), |time| {
            let (clamped, is_clamped) = clamp_time(time, now);
            clamped_count += u64::from(is_clamped);
            clamped
        })
    };
    let column = times.iter().map(clamp).collect();
    (Some(column), clamped_count)
}

fn clamp_time((at, nanos): RecordTime, now: Millis) -> (RecordTime, bool) {
    let (at, is_ahead) = at.clamp_future(now);
    ((at, if is_ahead { 0 } else { nanos }), is_ahead)
}

/// The first id and the row metadata of a frame with clamped times.
pub(super) struct ClampedFrame<'a> {
    pub(super) first_id: Id,
    pub(super) layout_bits: u8,
    pub(super) row_meta: Cow<'a, [u8]>,
    pub(super) clamped_count: u64,
}

/// Clamps the times of a frame. The row metadata is borrowed unless a time in it changes.
pub(super) fn clamp_frame<'a>(frame: &Frame<'a>, now: Millis) -> ClampedFrame<'a> {
    let header = &frame.header;
    let (first_time, is_first_ahead) = header.first_id.time().clamp_future(now);
    let first_id = Id::new(first_time, header.first_id.producer(), header.first_id.sequence());
    let unchanged = ClampedFrame {
        first_id: header.first_id,
        layout_bits: header.layout_bits,
        row_meta: Cow::Borrowed(frame.row_meta()),
        clamped_count: 0,
    };
    let Some(mut row_meta) =
        RowMeta::decode(header.layout_bits, frame.row_meta(), header.first_id.time(), header.count)
    else {
        return unchanged;
    };
    let Some(times) = &mut row_meta.times else {
        // Flags, lines and attributes do not depend on the time.
        let clamped_count = if is_first_ahead { u64::from(header.count) } else { 0 };
        return ClampedFrame { first_id, clamped_count, ..unchanged };
    };
    let mut clamped_count = 0;
    for time in times {
        let (clamped, is_clamped) = clamp_time(*time, now);
        *time = clamped;
        clamped_count += u64::from(is_clamped);
    }
    if clamped_count == 0 && !is_first_ahead {
        return unchanged;
    }
    let mut encoded = Vec::new();
    let layout_bits = row_meta.encode(first_time, &mut encoded);
    ClampedFrame { first_id, layout_bits, row_meta: Cow::Owned(encoded), clamped_count }
}
#[cfg(test)]
mod tests {
    use bucksaw_record::{Flags, Producer};
    use bucksaw_segment::FrameHeader;
    use bucksaw_wire::{Batch, ClientMessage, DecodeProgress};

    use super::*;

    const NOW: Millis = Millis(10_000_000);
    const AHEAD: Millis = Millis(90_000_000);

    /// Checks the times of the rows after clamping, and the number of clamped times.
    fn check(first_at: Millis, times: Option<Vec<(Millis, u32)>>, want: [u64; 2], want_clamped: u64) {
        let mut flags = Flags::empty();
        flags.push(1, Flags::UNTERMINATED);
        let row_meta = RowMeta { times, flags: flags.clone(), ..RowMeta::default() };
        let mut encoded = Vec::new();
        let first = Id::new(first_at, Producer::new(4), 7);
        let layout_bits = row_meta.encode(first.time(), &mut encoded);
        let bytes =
            Batch { first_id: first, count: 2, accepted: NOW, layout_bits, row_meta: &encoded, text: b"a\nb\n" }
                .encode();
        let Ok(DecodeProgress::Complete(ClientMessage::Batch(frame), _)) =
            ClientMessage::decode(&bytes, FrameHeader::BODY_BYTES_MAX as u32)
        else {
            panic!("no batch")
        };
        let clamped = clamp_frame(&frame, NOW);
        let row_meta = RowMeta::decode(clamped.layout_bits, &clamped.row_meta, clamped.first_id.time(), 2).unwrap();
        let rows = row_meta.into_rows(clamped.first_id, 2, NOW).unwrap();
        let ids = [0, 1].map(|row| rows.id(row).unwrap());
        assert_eq!(ids, [0, 1].map(|row| Id::new(Millis(want[row]), Producer::new(4), 7 + row as u32)));
        assert_eq!((clamped.clamped_count, rows.flags), (want_clamped, flags));
    }

    #[test]
    fn times_far_ahead_are_clamped_to_the_arrival_time() {
        check(Millis(9), None, [9, 9], 0);
        check(AHEAD, None, [NOW.0, NOW.0], 2);
        check(Millis(9), Some(vec![(Millis(9), 5), (Millis(3), 0)]), [9, 3], 0);
        check(Millis(9), Some(vec![(Millis(9), 5), (AHEAD, 6)]), [9, NOW.0], 1);
        check(AHEAD, Some(vec![(AHEAD, 5), (Millis(3), 0)]), [NOW.0, 3], 1);
        check(AHEAD, Some(vec![(Millis(8), 5), (Millis(3), 0)]), [8, 3], 0);
    }
}
