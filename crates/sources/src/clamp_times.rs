//! Times that a client states and that cannot be: more than an hour ahead of this node's clock.
//!
//! They become the time of arrival. Producer and number stay, and with them the identity of the record; a batch that is
//! sent again after a lost acknowledgement gets a later time of arrival, as the first one is not remembered.

use std::borrow::Cow;

use bucksaw_record::{Id, Millis};
use bucksaw_segment::{Frame, RowMeta};

/// What a frame says of its rows, made to fit the clock.
pub(crate) struct ClampedFrame<'a> {
    pub(crate) first_id: Id,
    pub(crate) layout_bits: u8,
    pub(crate) row_meta: Cow<'a, [u8]>,
    /// How many times were replaced.
    pub(crate) times_replaced: u64,
}

/// Replaces what lies too far ahead of `now`.
pub(crate) fn clamp_times<'a>(frame: &Frame<'a>, now: Millis) -> ClampedFrame<'a> {
    let header = &frame.header;
    let (at, is_ahead) = header.first_id.time().clamp_future(now);
    let first = Id::new(at, header.first_id.producer(), header.first_id.sequence());
    let unchanged = ClampedFrame {
        first_id: header.first_id,
        layout_bits: header.layout_bits,
        row_meta: Cow::Borrowed(frame.row_meta()),
        times_replaced: 0,
    };
    let Some(mut row_meta) =
        RowMeta::decode(header.layout_bits, frame.row_meta(), header.first_id.time(), header.count)
    else {
        return unchanged;
    };
    let Some(times) = &mut row_meta.times else {
        // The marks and lengths do not depend on the time.
        return ClampedFrame {
            first_id: first,
            times_replaced: if is_ahead { u64::from(header.count) } else { 0 },
            ..unchanged
        };
    };
    let mut replaced = 0;
    for (at, nanos) in times {
        let (within, is_ahead) = at.clamp_future(now);
        if is_ahead {
            (*at, *nanos) = (within, 0);
            replaced += 1;
        }
    }
    if replaced == 0 && !is_ahead {
        return unchanged;
    }
    let mut encoded = Vec::new();
    let layout_bits = row_meta.encode(first.time(), &mut encoded);
    ClampedFrame { first_id: first, layout_bits, row_meta: Cow::Owned(encoded), times_replaced: replaced }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Flags, Producer};
    use bucksaw_segment::FrameHeader;
    use bucksaw_wire::{Batch, ClientMessage, DecodeProgress};

    use super::*;

    const NOW: Millis = Millis(10_000_000);
    const AHEAD: Millis = Millis(90_000_000);

    /// The times of the rows after stamping, and how many were replaced.
    fn check(first_at: Millis, times: Option<Vec<(Millis, u32)>>, want: [u64; 2], want_replaced: u64) {
        let mut flags = Flags::empty();
        flags.push(1, Flags::UNTERMINATED);
        let row_meta = RowMeta { times, lengths: None, flags: flags.clone() };
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
        let stamped = clamp_times(&frame, NOW);
        let row_meta = RowMeta::decode(stamped.layout_bits, &stamped.row_meta, stamped.first_id.time(), 2).unwrap();
        let rows = row_meta.into_rows(stamped.first_id, 2, NOW).unwrap();
        let ids = [0, 1].map(|row| rows.id(row).unwrap());
        assert_eq!(ids, [0, 1].map(|row| Id::new(Millis(want[row]), Producer::new(4), 7 + row as u32)));
        assert_eq!((stamped.times_replaced, rows.flags), (want_replaced, flags));
    }

    #[test]
    fn times_far_ahead_become_the_arrival() {
        check(Millis(9), None, [9, 9], 0);
        check(AHEAD, None, [NOW.0, NOW.0], 2);
        check(Millis(9), Some(vec![(Millis(9), 5), (Millis(3), 0)]), [9, 3], 0);
        check(Millis(9), Some(vec![(Millis(9), 5), (AHEAD, 6)]), [9, NOW.0], 1);
        check(AHEAD, Some(vec![(AHEAD, 5), (Millis(3), 0)]), [NOW.0, 3], 1);
        check(AHEAD, Some(vec![(Millis(8), 5), (Millis(3), 0)]), [8, 3], 0);
    }
}
