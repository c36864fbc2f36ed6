use super::*;
use crate::attribute_column::tests::any_attributes;
use bucksaw_record::Producer;
use proptest::prelude::*;

prop_compose! {
    /// Row metadata for `1..20` rows, with their count.
    pub(crate) fn any_row_meta()(count in 1_u32..20)(
        count in Just(count),
        times in prop::option::of(prop::collection::vec((0..=Millis::MAX.0, 0_u32..NANOS_PER_MILLI as u32), count as usize)),
        (lines, attributes) in any_attributes(count),
        has_lines in any::<bool>(),
        flagged in prop::collection::btree_map(0..count, 1_u8..4, 0..4),
    ) -> (u32, RowMeta) {
        let mut flags = Flags::empty();
        flagged.into_iter().for_each(|(row, bits)| flags.push(row, bits));
        let times = times.map(|times| times.into_iter().map(|(ms, nanos)| (Millis(ms), nanos)).collect());
        let attributes = if has_lines { attributes } else { RowAttributes::empty() };
        (count, RowMeta { times, lines: has_lines.then_some(lines), flags, attributes })
    }
}

proptest! {
    #[test]
    fn columns_round_trip((count, row_meta) in any_row_meta(), base in 0..=Millis::MAX.0) {
        let mut out = Vec::new();
        let layout_bits = row_meta.encode(Millis(base), &mut out);
        prop_assert_eq!(RowMeta::decode(layout_bits, &out, Millis(base), count), Some(row_meta.clone()));
        out.push(0);
        prop_assert_eq!(RowMeta::decode(layout_bits, &out, Millis(base), count), None);
    }

    #[test]
    fn any_bytes_decode_or_fail(flags: u8, bytes in prop::collection::vec(any::<u8>(), 0..64), count: u32) {
        let _ = RowMeta::decode(flags, &bytes, Millis(0), count);
    }

    #[test]
    fn rows_have_the_stated_times((count, row_meta) in any_row_meta()) {
        let first = Id::new(Millis(77), Producer::new(3), 5);
        let rows = row_meta.clone().into_rows(first, count, Millis(80)).unwrap();
        prop_assert_eq!(rows.count, count);
        for row in 0..count {
            let (at, nanos) = row_meta.times.as_ref().map_or((Millis(77), 0), |times| times[row as usize]);
            prop_assert_eq!(rows.id(row), Some(Id::new(at, first.producer(), 5 + row)));
            prop_assert_eq!(rows.nanos(row), nanos);
        }
        let mut bytes = Vec::new();
        let layout_bits = row_meta.encode(first.time(), &mut bytes);
        prop_assert_eq!(RowMeta::id_range(layout_bits, &bytes, first, count), rows.id_range());
        prop_assert_eq!(RowMeta::id_range(layout_bits, &bytes, first, 0), None);
    }

    #[test]
    fn any_bytes_have_a_range_of_ids_or_none(layout_bits: u8, bytes in prop::collection::vec(any::<u8>(), 0..64), count: u32) {
        let first = Id::new(Millis(1), Producer::new(1), u32::MAX - 3);
        let _ = RowMeta::id_range(layout_bits, &bytes, first, count.min(1_000));
    }
}

#[test]
fn sequence_numbers_do_not_overflow() {
    let first = Id::new(Millis(1), Producer::new(1), u32::MAX);
    assert!(RowMeta::default().into_rows(first, 1, Millis(1)).is_some());
    assert!(RowMeta::default().into_rows(first, 2, Millis(1)).is_none());
    assert!(RowMeta::default().into_rows(first, 0, Millis(1)).is_none());
}
