use bucksaw_record::{Millis, Producer};
use proptest::prelude::*;

use super::*;
use crate::print::{Colour, Out, RecordPrefix, RecordStyle};
use crate::values::DisplayZone;

/// Record `number`, which belongs to one of the streams `a`, `b` and so on, in turn.
fn object(number: u64, streams: u64) -> Bytes {
    let id = Id::new(Millis(number), Producer::new(1), 0);
    let app = char::from(b'a' + u8::try_from(number % streams).unwrap());
    format!(r#"{{"id":"{id}","labels":{{"app":"{app}"}},"line":"{number}"}}"#).into()
}

fn id(object: &Bytes) -> Id {
    NodeRecord::parse(object).unwrap().id().unwrap()
}

/// The output for these matches among `0..total`. A match is `N:`, another record `N-`.
fn printed(total: u64, streams: u64, matches: &[u64], (before, after): (u64, u64), newest_first: bool) -> Vec<String> {
    let style = RecordStyle {
        format: "raw".parse().unwrap(),
        zone: DisplayZone::utc(),
        highlighter: None,
        prefix: RecordPrefix::Number,
    };
    let out = Out::new(Vec::new(), false, Colour::Off);
    let mut groups = Groups::new(RecordPrinter::new(out, style), newest_first);
    for number in matches {
        let stream: Vec<u64> = (0..total).filter(|other| other % streams == number % streams).collect();
        let at = stream.iter().position(|other| other == number).unwrap();
        let from = at.saturating_sub(usize::try_from(before).unwrap() + 1);
        let to = (at + usize::try_from(after).unwrap() + 1).min(stream.len());
        let around = stream[from..to].iter().map(|number| object(*number, streams)).collect();
        let matched = object(*number, streams);
        groups.push(id(&matched), &matched, around, before).unwrap();
    }
    groups.end().unwrap();
    groups.printer.finish().unwrap();
    let shown = String::from_utf8(groups.printer.written().clone()).unwrap();
    // The number of the match is tested with the printer.
    let line = |line: &str| match line.find([':', '-']) {
        Some(at) if line != "--" => format!("{}{}", &line[at + 1..], &line[at..=at]),
        _ => line.to_owned(),
    };
    shown.lines().map(line).collect()
}

#[test]
fn groups_are_those_of_grep() {
    let check = |matches: &[u64], sides: (u64, u64), want: &[&str]| {
        assert_eq!(printed(20, 1, matches, sides, false), want, "{matches:?} {sides:?}");
    };
    check(&[5], (1, 2), &["4-", "5:", "6-", "7-"]);
    check(&[0, 19], (2, 2), &["0:", "1-", "2-", "--", "17-", "18-", "19:"]);
    // They overlap, they touch, and they are one record apart.
    check(&[5, 6], (1, 1), &["4-", "5:", "6:", "7-"]);
    check(&[5, 8], (1, 1), &["4-", "5:", "6-", "7-", "8:", "9-"]);
    check(&[5, 9], (1, 1), &["4-", "5:", "6-", "--", "8-", "9:", "10-"]);
    check(&[5, 6, 8], (0, 3), &["5:", "6:", "7-", "8:", "9-", "10-", "11-"]);
}

#[test]
fn a_group_holds_one_stream() {
    let want = ["2-", "4:", "6-", "--", "3-", "5:", "7-", "--", "8:", "10-"];
    assert_eq!(printed(20, 2, &[4, 5, 8], (1, 1), false), want);
}

#[test]
fn groups_may_be_newest_first() {
    let want = ["8-", "9:", "10-", "--", "5-", "6:", "7-", "--", "3-", "4:"];
    assert_eq!(printed(20, 1, &[9, 6, 4], (1, 1), true), want);
}

proptest! {
    #[test]
    fn each_record_is_printed_once_and_each_match_is_marked(
        total in 1_u64..40, streams in 1_u64..4, matches in prop::collection::btree_set(0_u64..40, 1..10),
        sides in (0_u64..4, 0_u64..4), newest_first in any::<bool>(),
    ) {
        let mut matches: Vec<u64> = matches.into_iter().filter(|number| *number < total).collect();
        if newest_first {
            matches.reverse();
        }
        let shown = printed(total, streams, &matches, sides, newest_first);
        let stream_distance = |a: u64, b: u64| (a % streams == b % streams).then(|| a.abs_diff(b) / streams);
        let want: Vec<u64> = (0..total)
            .filter(|number| {
                matches.iter().any(|matched| {
                    let side = if number < matched { sides.0 } else { sides.1 };
                    stream_distance(*number, *matched).is_some_and(|distance| distance <= side)
                })
            })
            .collect();
        let records: Vec<&String> = shown.iter().filter(|line| *line != "--").collect();
        let mut numbers: Vec<u64> = records.iter().map(|line| line[..line.len() - 1].parse().unwrap()).collect();
        numbers.sort_unstable();
        prop_assert_eq!(&numbers, &want, "{:?}", shown);
        if streams == 1 {
            let marked: Vec<u64> = records
                .iter()
                .filter_map(|line| line.strip_suffix(':').map(|number| number.parse().unwrap()))
                .collect();
            let missing: Vec<_> = matches.iter().filter(|number| !marked.contains(number)).collect();
            // Newest first, the context of a later match may hold an earlier one.
            prop_assert!(newest_first || missing.is_empty(), "{:?} {:?}", missing, shown);
        }
        prop_assert!(shown.first() != Some(&"--".to_owned()) && shown.last() != Some(&"--".to_owned()));
    }
}
