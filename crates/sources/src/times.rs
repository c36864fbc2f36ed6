//! Times that a client states and that cannot be: more than an hour ahead of this node's clock.
//!
//! They become the time of arrival. Producer and number stay, and with them the identity of the record; a batch that is
//! sent again after a lost acknowledgement gets a later time of arrival, as the first one is not remembered.

use std::borrow::Cow;

use bucksaw_record::{Id, Millis};
use bucksaw_segment::{Frame, Sides};

/// What a frame says of its rows, made to fit the clock.
pub(crate) struct Stamped<'a> {
    pub(crate) first: Id,
    pub(crate) flags: u8,
    pub(crate) sides: Cow<'a, [u8]>,
    /// How many times were replaced.
    pub(crate) replaced: u64,
}

/// Replaces what lies too far ahead of `now`.
pub(crate) fn stamped<'a>(frame: &Frame<'a>, now: Millis) -> Stamped<'a> {
    let header = &frame.header;
    let (at, is_ahead) = header.first.at().not_ahead_of(now);
    let first = Id::new(at, header.first.producer(), header.first.sequence());
    let as_sent =
        Stamped { first: header.first, flags: header.flags, sides: Cow::Borrowed(frame.sides()), replaced: 0 };
    let Some(mut sides) = Sides::decode(header.flags, frame.sides(), header.first.at(), header.count) else {
        return as_sent;
    };
    let Some(times) = &mut sides.times else {
        // The marks and lengths do not depend on the time.
        return Stamped { first, replaced: if is_ahead { u64::from(header.count) } else { 0 }, ..as_sent };
    };
    let mut replaced = 0;
    for (at, nanos) in times {
        let (within, is_ahead) = at.not_ahead_of(now);
        if is_ahead {
            (*at, *nanos) = (within, 0);
            replaced += 1;
        }
    }
    if replaced == 0 && !is_ahead {
        return as_sent;
    }
    let mut encoded = Vec::new();
    let flags = sides.encode(first.at(), &mut encoded);
    Stamped { first, flags, sides: Cow::Owned(encoded), replaced }
}

#[cfg(test)]
mod tests {
    use bucksaw_record::{Marks, Producer};
    use bucksaw_segment::Header;
    use bucksaw_wire::{Batch, Message, Step};

    use super::*;

    const NOW: Millis = Millis(10_000_000);
    const AHEAD: Millis = Millis(90_000_000);

    /// The times of the rows after stamping, and how many were replaced.
    fn check(first_at: Millis, times: Option<Vec<(Millis, u32)>>, want: [u64; 2], want_replaced: u64) {
        let mut marks = Marks::none();
        marks.push(1, Marks::OPEN);
        let sides = Sides { times, lengths: None, marks: marks.clone() };
        let mut encoded = Vec::new();
        let first = Id::new(first_at, Producer::new(4), 7);
        let flags = sides.encode(first.at(), &mut encoded);
        let bytes = Batch { first, count: 2, accepted: NOW, flags, sides: &encoded, text: b"a\nb\n" }.encode();
        let Ok(Step::Whole(Message::Batch(frame), _)) = Message::decode(&bytes, Header::BODY_BYTES_MAX as u32) else {
            panic!("no batch")
        };
        let stamped = stamped(&frame, NOW);
        let sides = Sides::decode(stamped.flags, &stamped.sides, stamped.first.at(), 2).unwrap();
        let rows = sides.into_rows(stamped.first, 2, NOW).unwrap();
        let ids = [0, 1].map(|row| rows.id(row).unwrap());
        assert_eq!(ids, [0, 1].map(|row| Id::new(Millis(want[row]), Producer::new(4), 7 + row as u32)));
        assert_eq!((stamped.replaced, rows.marks), (want_replaced, marks));
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
