use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;

/// 2026-11-24T22:40:04Z.
const SECOND: u64 = 1_795_560_004;
const NOW: Millis = Millis(SECOND * 1_000 + 5_000);

fn nanos(zone: &str, line: &str) -> Option<u64> {
    let mut reader = LineTimeReader::new(crate::time::parse_zone(zone).unwrap());
    reader.stated_time(line.as_bytes(), NOW).map(|(at, below)| at.0 * 1_000_000 + u64::from(below))
}

fn at(fraction: u64) -> Option<u64> {
    Some(SECOND * 1_000_000_000 + fraction)
}

#[test]
fn each_form_has_its_time() {
    for (line, fraction) in [
        ("2026-11-24T22:40:04Z x", 0),
        ("2026-11-24T22:40:04.1Z", 100_000_000),
        ("2026-11-24T22:40:04.123456789Z", 123_456_789),
        ("2026-11-24t22:40:04,5z", 500_000_000),
        ("2026-11-24 22:40:04 x", 0),
        ("2026-11-24 23:40:04.25+0100 I CONTROL", 250_000_000),
        ("2026-11-24 23:40:04.25 +0100 INFO", 250_000_000),
        ("2026-11-24T17:40:04-05 x", 0),
        ("2026-11-24T23:40:04+01:00", 0),
        ("2026-11-24 22:40:04,123 - INFO  [main]", 123_000_000),
        ("[2026-11-24 22:40:04,123] TRACE", 123_000_000),
        ("DEBUG [Pool:1] 2026-11-24 22:40:04,123  A.java:105", 123_000_000),
        ("nova.log.1.2017-05-16_00 2026-11-24 22:40:04.123 25 INFO", 123_000_000),
        ("2026-11-24 22:40:04.123 UTC [7] LOG:", 123_000_000),
        ("2026-11-24 23:40:04 CET:192.168.1.201(50920):LOG", 0),
        ("2026/11/24 22:40:04 [error] 7#7", 0),
        ("2026/11/24 22:40:04.123456 main.go:7", 123_456_000),
        (">>>  Section start 2026/11/24 22:40:04.302", 302_000_000),
        ("1.2.3.4 - - [24/Nov/2026:22:40:04 +0000] \"GET / HTTP/1.1\" 200", 0),
        ("1.2.3.4 - - [24/Nov/2026:23:40:04 +0100] \"GET /\"", 0),
        ("7:M 24 Nov 2026 22:40:04.123 * Ready", 123_000_000),
        ("24-Nov-2026 22:40:04.123 INFO [main]", 123_000_000),
        ("Nov 24 22:40:04 host sshd[7]: x", 0),
        ("<34>Nov 24 22:40:04 host su: x", 0),
        ("<34>1 2026-11-24T22:40:04.003Z host su - - -", 3_000_000),
        ("Nov 24 22:40:04 2026 x", 0),
        ("[Tue Nov 24 22:40:04 2026] [notice] x", 0),
        ("[Tue Nov 24 22:40:04.123456 2026] [core:notice] x", 123_456_000),
        ("Tue Nov 24 22:40:04 UTC 2026 x", 0),
        ("Nov 24 2026 22:40:04: %ASA-6", 0),
        ("Nov 24, 2026 10:40:04 PM org.apache", 0),
        ("I1124 22:40:04.123456       1 main.go:7] x", 123_456_000),
        ("11-24 22:40:04.123  1702  2395 D Window: x", 123_000_000),
        ("26/11/24 22:40:04 INFO executor", 0),
        ("261124 224004 148 INFO dfs", 0),
        ("261124 22:40:04 [Note] mysqld", 0),
        ("20261124-22:40:4:606|Step_LSC|", 606_000_000),
        ("20261124T224004Z x", 0),
        ("1795560004 x", 0),
        ("1795560004.25\tx", 250_000_000),
        ("[1795560004.123] x", 123_000_000),
        ("- 1795560004 2005.06.03 R02", 0),
        ("1795560004123 x", 123_000_000),
        ("1795560004123456 x", 123_456_000),
        ("1795560004123456789", 123_456_789),
        ("2026-11-24-22.40.04.675872 RAS", 675_872_000),
        (r#"{"level":"x","time":"2026-11-24T22:40:04Z","ts":1795560004.5}"#, 0),
        (r#"{"a":{"time":1},"ts":1795560004.5}"#, 500_000_000),
        (r#"{"time":"soon","ts":1795560004.5}"#, 500_000_000),
        (r#"{"a long text, in which is no \" quote":"time","time":1795560004}"#, 0),
        (r#"{"msg":"a \"time\":1","@timestamp":"2026-11-24T22:40:04Z"}"#, 0),
        (r#"{"t":{"$date":"2026-11-24T22:40:04Z"}}"#, 0),
    ] {
        assert_eq!(nanos("UTC", line), at(fraction), "{line}");
    }
}

#[test]
fn other_lines_state_no_time() {
    for line in [
        "",
        "x",
        "[    1.234567] kernel: x",
        "[17325.123456] kernel: x",
        "\tat com.example.Main(Main.java:105)",
        "1.2.3.4 - -",
        "took 1795560004 ns",
        "2026-13-24 22:40:04",
        "2026-02-30 22:40:04",
        "2026-11-24",
        "May the force be with you",
        "12345678901 x",
        "10:30 x",
        "x2026-11-24T22:40:04Z",
        "1795560004abc",
    ] {
        assert_eq!(nanos("UTC", line), None, "{line}");
    }
    let late = format!("{} 2026-11-24T22:40:04Z", "x".repeat(SEARCHED_BYTES));
    assert_eq!(nanos("UTC", &late), None);
}

#[test]
fn a_half_of_the_day_may_follow_a_minute_that_is_known() {
    let mut reader = LineTimeReader::new(TimeZone::UTC);
    let text = "Nov 24, 2026 10:40:04 a long line\nNov 24, 2026 10:40:04 PM a long line\n";
    let want = [SECOND - 12 * 3_600, SECOND].map(Some);
    assert_eq!(seconds_of(&mut reader, &[text], &Flags::empty()), want);
}

#[test]
fn a_leap_second_is_the_next_minute() {
    let mut reader = LineTimeReader::new(TimeZone::UTC);
    let text = "2016-12-31 23:59:60.5 a long line\n2016-12-31 23:59:58 a long line\n2016-12-31 23:59:60 a long line\n";
    let want = [1_483_228_800, 1_483_228_798, 1_483_228_800].map(Some);
    assert_eq!(seconds_of(&mut reader, &[text], &Flags::empty()), want);
}

#[test]
fn the_year_follows_the_clock_from_text_to_text() {
    let mut reader = LineTimeReader::new(TimeZone::UTC);
    for (now, want) in
        [("2026-12-31T23:59:59Z", "2026-12-31T23:59:59"), ("2027-12-31T23:59:59Z", "2027-12-31T23:59:59")]
    {
        let now = crate::time::event_time_text(now.as_bytes()).unwrap().0;
        let mut times = Vec::new();
        reader.read(&[b"Dec 31 23:59:59 a long line\n"], &Flags::empty(), now, &mut times);
        let (at, nanos) = times[0].unwrap();
        assert_eq!(crate::time::format_rfc3339(at, nanos), format!("{want}.000000Z"));
    }
}

#[test]
fn times_without_a_zone_are_in_that_of_the_reader() {
    assert_eq!(nanos("Europe/Berlin", "2026-11-24 23:40:04"), at(0));
    assert_eq!(nanos("Europe/Berlin", r#"{"ts":"2026-11-24 23:40:04"}"#), at(0));
    assert_eq!(nanos("Europe/Berlin", "2026-11-24T22:40:04Z"), at(0));
    assert_eq!(nanos("-03:30", "Nov 24 19:10:04 x"), at(0));
}

#[test]
fn a_time_without_a_year_is_nearest_to_now() {
    let read = |line: &str, now: &str| {
        let now = crate::time::event_time_text(now.as_bytes()).unwrap().0;
        let time = LineTimeReader::new(TimeZone::UTC).stated_time(line.as_bytes(), now).unwrap();
        crate::time::format_rfc3339(time.0, time.1)
    };
    assert_eq!(read("Dec 31 23:59:59 x", "2026-01-01T00:00:01Z"), "2025-12-31T23:59:59.000000Z");
    assert_eq!(read("Jan  1 00:00:01 x", "2025-12-31T23:59:59Z"), "2026-01-01T00:00:01.000000Z");
    assert_eq!(read("Feb 29 00:00:00 x", "2026-03-01T00:00:00Z"), "2024-02-29T00:00:00.000000Z");
}

/// The seconds of the times that a reader reads one text after another.
fn seconds_of(reader: &mut LineTimeReader, parts: &[&str], flags: &Flags) -> Vec<Option<u64>> {
    let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    let mut times = Vec::new();
    reader.read(&parts, flags, NOW, &mut times);
    times.into_iter().map(|time| time.map(|(at, _)| at.0 / 1_000)).collect()
}

#[test]
fn a_line_without_a_time_has_that_of_the_line_before() {
    let mut reader = LineTimeReader::new(TimeZone::UTC);
    let text = "\tat x\n2026-11-24 22:40:04 x\n\tat x\n\n";
    let want = [None, Some(SECOND), Some(SECOND), Some(SECOND)];
    assert_eq!(seconds_of(&mut reader, &[text], &Flags::empty()), want);
    // Also after the end of a text.
    assert_eq!(seconds_of(&mut reader, &["\tat x\n"], &Flags::empty()), [Some(SECOND)]);
    assert_eq!(seconds_of(&mut reader, &["2026-11-24 22:40:05 x\n"], &Flags::empty()), [Some(SECOND + 1)]);
    assert_eq!(seconds_of(&mut reader, &[], &Flags::empty()), []);
}

#[test]
fn the_rest_of_a_cut_line_has_the_time_of_its_beginning() {
    let mut flags = Flags::empty();
    flags.push(1, Flags::CUT);
    let mut reader = LineTimeReader::new(TimeZone::UTC);
    let text = "2026-11-24 22:40:04 x\n2026-11-24 22:40:05 x\n2026-11-24 22:40:09 x\n2026-11-24 22:40:06 x\n";
    let want = [SECOND, SECOND + 1, SECOND + 1, SECOND + 2].map(Some);
    assert_eq!(seconds_of(&mut reader, &[text], &flags), want);
    // Also if the text ends between them.
    flags = Flags::empty();
    flags.push(0, Flags::CUT);
    assert_eq!(seconds_of(&mut reader, &["2026-11-24 22:40:07 x\n"], &flags), [Some(SECOND + 3)]);
    assert_eq!(seconds_of(&mut reader, &["2026-11-24 22:40:09 x\n"], &Flags::empty()), [Some(SECOND + 3)]);
}

proptest! {
    /// `jiff` prints a time in each form, and the reader reads the same, to the precision of the form. Years of two digits end in 2069.
    #[test]
    fn printed_times_are_read_back(nanos in 1_000_000_000_000_000_000_i128..3_100_000_000_000_000_000, zone in 0_usize..3) {
        let zone = crate::time::parse_zone(["UTC", "Europe/Berlin", "+05:30"][zone]).unwrap();
        let at = jiff::Timestamp::from_nanosecond(nanos).unwrap().to_zoned(zone.clone());
        for (form, precision) in [
            ("%Y-%m-%dT%H:%M:%S.%9f%:z", 1),
            ("x [%Y-%m-%d %H:%M:%S,%3f %z] y", 1_000_000),
            ("%Y/%m/%d %H:%M:%S.%6f%z", 1_000),
            ("1.2.3.4 - - [%d/%b/%Y:%H:%M:%S %z]", 1_000_000_000),
            ("%d-%b-%Y %H:%M:%S.%3f %z", 1_000_000),
            ("%Y%m%dT%H%M%S%z", 1_000_000_000),
            ("%s.%6f x", 1_000),
        ] {
            let line = at.strftime(form).to_string();
            let read = LineTimeReader::new(TimeZone::UTC).stated_time(line.as_bytes(), NOW);
            let read = read.map(|(at, below)| i128::from(at.0) * 1_000_000 + i128::from(below));
            prop_assert_eq!(read, Some(nanos - nanos % precision), "{}", line);
        }
        // A local time that occurs twice is the first.
        for form in ["%a %b %e %H:%M:%S.%6f %Y x", "%y/%m/%d %H:%M:%S.%6f x", "%Y-%m-%d %H:%M:%S.%6f x"] {
            let line = at.strftime(form).to_string();
            let (read, below) = LineTimeReader::new(zone.clone()).stated_time(line.as_bytes(), NOW).unwrap();
            let first = zone.to_ambiguous_timestamp(at.datetime()).compatible().unwrap().as_nanosecond();
            prop_assert_eq!(i128::from(read.0) * 1_000_000 + i128::from(below), first - first % 1_000, "{}", line);
        }
    }

    /// The minute that is remembered from the line before changes nothing.
    #[test]
    fn each_line_has_the_time_that_it_has_alone(
        lines in prop::collection::vec((0_usize..17, 0_i64..200, 0_u32..4), 1..12),
        zone in 0_usize..2,
        start in 0_usize..3,
    ) {
        let zone = crate::time::parse_zone(["UTC", "Europe/Berlin"][zone]).unwrap();
        // Now, at the end of the year, and when clocks in Berlin are set back.
        let start = [1_795_560_004_i64, 1_798_761_500, 1_792_976_300][start];
        let line = |(form, seconds, ending): &(usize, i64, u32)| {
            let form = [
                "%Y-%m-%dT%H:%M:%S.%3fZ", "%Y-%m-%d %H:%M:%S,%3f", "%Y-%m-%d %H:%M:%S%z", "x [%d/%b/%Y:%H:%M:%S %z]",
                "%b %e %H:%M:%S", "[%a %b %e %H:%M:%S.%6f %Y]", "%b %e %H:%M:%S %Z %Y", "%b %e, %Y %I:%M:%S %p",
                "I%m%d %H:%M:%S.%6f", "%m-%d %H:%M:%S.%3f", "%y%m%d %H%M%S", "%Y%m%dT%H%M%S", "%Y%m%d-%H:%M:%S:%3f",
                "%s.%3f", "{\"ts\":\"%Y-%m-%d %H:%M:%S\"}", "%Y-%m-%d %H:%M", "%b %e, %Y %I:%M:%S",
            ][*form];
            let at = jiff::Timestamp::from_second(start + seconds).unwrap().to_zoned(zone.clone());
            format!("{}{} and the rest of the line\n", at.strftime(form), ["", " x", " 2026", "0"][*ending as usize])
        };
        let lines: Vec<String> = lines.iter().map(line).collect();
        let mut reader = LineTimeReader::new(zone.clone());
        for line in &lines {
            let alone = LineTimeReader::new(zone.clone()).stated_time(line.trim_end().as_bytes(), NOW);
            reader.now = NOW;
            prop_assert_eq!(reader.stated_time(line.trim_end().as_bytes(), NOW), alone, "{} in {:?}", line, lines);
        }
    }

    /// A text may be divided anywhere.
    #[test]
    fn parts_have_the_times_of_the_whole(
        seconds in prop::collection::vec(prop::option::of(0_u32..60), 1..8),
        cuts in prop::collection::vec(0_usize..200, 0..5),
        cut_rows in prop::collection::btree_set(0_u32..8, 0..3),
    ) {
        let line = |second: &Option<u32>| match second {
            Some(second) => format!("x 2026-11-24 22:40:{second:02} y\n"),
            None => "\tat z\n".to_owned(),
        };
        let text: String = seconds.iter().map(line).collect();
        let mut flags = Flags::empty();
        cut_rows.iter().for_each(|row| flags.push(*row, Flags::CUT));
        let mut cuts: Vec<usize> = cuts.into_iter().chain([0, text.len()]).map(|at| at.min(text.len())).collect();
        cuts.sort_unstable();
        let parts: Vec<&str> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        let whole = seconds_of(&mut LineTimeReader::new(TimeZone::UTC), &[&text], &flags);
        prop_assert_eq!(whole.len(), seconds.len());
        prop_assert_eq!(seconds_of(&mut LineTimeReader::new(TimeZone::UTC), &parts, &flags), whole);
    }

    #[test]
    fn any_bytes_are_read(line in prop::collection::vec(any::<u8>(), 0..200), digits in "[0-9:. /TZ+{}\"\\\\A-Z-]{0,60}") {
        let mut reader = LineTimeReader::new(crate::time::parse_zone("Europe/Berlin").unwrap());
        let mut times = Vec::new();
        reader.read(&[&line], &Flags::empty(), NOW, &mut times);
        reader.read(&[digits.as_bytes(), b"\n"], &Flags::empty(), NOW, &mut times);
        reader.read(&[format!("{{{digits}\n").as_bytes()], &Flags::empty(), Millis(0), &mut times);
        prop_assert_eq!(times.len(), line.iter().filter(|byte| **byte == b'\n').count() + 2);
    }
}
