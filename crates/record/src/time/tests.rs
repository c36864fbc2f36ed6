//! Tables of accepted and rejected forms, and comparison with `jiff`.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz;
use proptest::prelude::*;

use super::*;
use crate::Millis;

/// 2026-11-20T23:10:00Z.
const NOW: Millis = Millis(1_795_216_200_000);

#[test]
fn durations_parse() {
    let check = |text: &str, ms: u64| assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
    check("0", 0);
    check("0s", 0);
    check("500ms", 500);
    check("90s", 90_000);
    check("15m", 900_000);
    check("1h30m", 5_400_000);
    check("7d", 604_800_000);
    check("2w", 1_209_600_000);
    check("1w1d1h1m1s1ms", 694_861_001);
    check("18446744073709551615ms", u64::MAX);
    check("1.5h", 5_400_000);
    check("0.25s", 250);
    check("1.5h30m", 7_200_000);
    check("1 h 30 m", 5_400_000);
    check("15 minutes", 900_000);
    check("1 day 2 hours", 93_600_000);
    check(" 5m ", 300_000);
    let check = |text: &str, nanos: u64| assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
    check("250us", 250_000);
    check("250\u{b5}s", 250_000);
    check("250\u{3bc}s", 250_000);
    check("1.5us", 1_500);
    check("3ns", 3);
    check("0.9ns", 0);
    check("1.000000000999999999999999999999s", 1_000_000_000);
}

#[test]
fn errors_of_durations_name_the_accepted_forms() {
    for text in
        ["", "5", "00", "m", "-5m", "+5m", "5  m", "1.h", ".5h", "5M", "5mi", "5m3", "h5", "\u{ff15}m", "1y", "5m,3s"]
    {
        let error = parse_duration(text).unwrap_err();
        let forms =
            "expected a duration such as `15m`, `1h30m`, `1.5h` or `7d` (units ns, us, ms, s, m, h, d, w), found ";
        assert_eq!(error.to_string(), format!("{forms}`{text}`"));
    }
    for text in ["18446744073709551616ms", "99999999999999999w", "18446744073709551615ms1ms"] {
        let error = parse_duration(text).unwrap_err();
        assert_eq!(error.to_string(), format!("expected a duration of less than 500 million years, found `{text}`"));
    }
    assert!(parse_duration("99999999999999999999m5x") == Err(InvalidTime::Duration("99999999999999999999m5x".into())));
}

#[test]
fn timestamps_parse() {
    let check = |text: &str, ms: u64| assert_eq!(parse_timestamp(text, NOW, &TimeZone::UTC), Ok(Millis(ms)), "{text}");
    check("now", NOW.0);
    check("now-1h", NOW.0 - 3_600_000);
    check("now - 1h30m", NOW.0 - 5_400_000);
    check("now-1d", NOW.0 - 86_400_000);
    check("now+5m", NOW.0 + 300_000);
    check("now+99999999w", Millis::MAX.0);
    check("now-99999999w", 0);
    check("15m", NOW.0 - 900_000);
    check("15m ago", NOW.0 - 900_000);
    check("15 minutes ago", NOW.0 - 900_000);
    check("1.5h", NOW.0 - 5_400_000);
    check("1us", NOW.0 - 1);
    check("30d", NOW.0 - 30 * 86_400_000);
    check("9999w", 0);
    check("99999999999999999999999w", 0);
    check("99999999999999999999999999999999999999999999999999w", 0);
    check("0", 0);
    check("0s", NOW.0);
    check("1795216200", NOW.0);
    check("1795216200.25", NOW.0 + 250);
    check("99999999999", 99_999_999_999_000);
    check("100000000000", 100_000_000_000);
    check("99999999999999", 99_999_999_999_999);
    check("100000000000000", 100_000_000_000);
    check("99999999999999999", 99_999_999_999_999);
    check("100000000000000000", 100_000_000_000);
    check("281474976710655999999", Millis::MAX.0);
    check("2026-11-20", NOW.0 - (23 * 60 + 10) * 60_000);
    check("today", NOW.0 - (23 * 60 + 10) * 60_000);
    check("yesterday", NOW.0 - (47 * 60 + 10) * 60_000);
    check("yesterday 23:10", NOW.0 - 86_400_000);
    check("todayT23:10", NOW.0);
    check("23:10", NOW.0);
    check("23:10:00.5", NOW.0 + 500);
    check("9:10", NOW.0 - 14 * 3_600_000);
    check("23:59", NOW.0 + 49 * 60_000);
    check(" 23:10 ", NOW.0);
    check("2026-11-20T23:10:00Z", NOW.0);
    check("2026-11-20 23:10:00Z", NOW.0);
    check("2026-11-20 23:10", NOW.0);
    check("2026-11-20T23:10Z", NOW.0);
    check("2026-11-20T23:10:00.999999999Z", NOW.0 + 999);
    check("2026-11-21T00:40:00+01:30", NOW.0);
    check("2026-11-20T15:10:00-08:00", NOW.0);
    check("1970-01-01T01:00:00+01:00", 0);
    check("10889-08-02T05:31:50.655Z", Millis::MAX.0);
    check("10889-08-02T05:31:50.655", Millis::MAX.0);
}

#[test]
fn times_without_a_zone_are_local() {
    let check = |zone: &str, text: &str, utc: &str| {
        let zone = parse_zone(zone).unwrap();
        let got = parse_timestamp(text, NOW, &zone).map(|at| format_rfc3339(at, 0).replace(".000000", ""));
        assert_eq!(got.as_deref(), Ok(utc), "{text} in {zone:?}");
    };
    // It is 00:10 on the next day in Berlin.
    check("Europe/Berlin", "today", "2026-11-20T23:00:00Z");
    check("Europe/Berlin", "yesterday", "2026-11-19T23:00:00Z");
    check("Europe/Berlin", "yesterday 12:00", "2026-11-20T11:00:00Z");
    check("Europe/Berlin", "00:05", "2026-11-20T23:05:00Z");
    check("Europe/Berlin", "2026-07-01 12:00", "2026-07-01T10:00:00Z");
    check("Europe/Berlin", "2026-07-01", "2026-06-30T22:00:00Z");
    check("Europe/Berlin", "2026-07-01T12:00Z", "2026-07-01T12:00:00Z");
    check("Europe/Berlin", "2026-07-01T12:00-08:00", "2026-07-01T20:00:00Z");
    check("Europe/Berlin", "15m", "2026-11-20T22:55:00Z");
    check("Europe/Berlin", "1795216200", "2026-11-20T23:10:00Z");
    check("america/new_york", "10:30:15", "2026-11-20T15:30:15Z");
    check("+05:30", "today", "2026-11-20T18:30:00Z");
    check(" 05:30", "today", "2026-11-20T18:30:00Z");
    check("-0800", "today", "2026-11-20T08:00:00Z");
    check("+02", "10:30", "2026-11-21T08:30:00Z");
    check("Z", "10:30", "2026-11-20T10:30:00Z");
    check("-08:00", "1969-12-31 23:00", "1970-01-01T07:00:00Z");
    // Years past those of `jiff` have the rules of 400 years before.
    check("Europe/Berlin", "10400-07-01 12:00", "10400-07-01T10:00:00Z");
    check("Europe/Berlin", "10400-12-01 12:00", "10400-12-01T11:00:00Z");
    check("Europe/Berlin", "9999-12-31 23:59", "9999-12-31T22:59:00Z");
    let check_late = |text: &str, utc: &str| {
        let (zone, now) = (parse_zone("Europe/Berlin").unwrap(), Millis(Millis::MAX.0 - 60_000));
        let got = parse_timestamp(text, now, &zone).map(|at| format_rfc3339(at, 0));
        assert_eq!(got.as_deref(), Ok(utc), "{text}");
    };
    check_late("today", "10889-08-01T22:00:00.000000Z");
    check_late("6:00", "10889-08-02T04:00:00.000000Z");
}

#[test]
fn local_times_that_are_skipped_are_later_and_of_repeated_ones_the_first_is_taken() {
    let check = |zone: &str, text: &str, utc: &str| {
        let got = parse_timestamp(text, NOW, &parse_zone(zone).unwrap()).map(|at| format_rfc3339(at, 0));
        assert_eq!(got.map(|at| at.replace(".000000", "")).as_deref(), Ok(utc), "{text} in {zone}");
    };
    // Clocks in Berlin go from 02:00 to 03:00.
    check("Europe/Berlin", "2026-03-29 01:59", "2026-03-29T00:59:00Z");
    check("Europe/Berlin", "2026-03-29 02:30", "2026-03-29T01:30:00Z");
    check("Europe/Berlin", "2026-03-29 03:30", "2026-03-29T01:30:00Z");
    // They go from 03:00 back to 02:00.
    check("Europe/Berlin", "2026-10-25 02:30", "2026-10-25T00:30:00Z");
    check("Europe/Berlin", "2026-10-25 03:00", "2026-10-25T02:00:00Z");
    // Midnight is skipped: the day begins at 01:00. A whole day is skipped.
    check("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z");
    check("Pacific/Apia", "2011-12-30 12:00", "2011-12-30T22:00:00Z");
    // A day of a duration has 24 hours, also when clocks change.
    let zone = parse_zone("Europe/Berlin").unwrap();
    let noon = parse_timestamp("2026-03-29 12:00", NOW, &zone).unwrap();
    assert_eq!(parse_timestamp("1d", noon, &zone), parse_timestamp("2026-03-28 11:00", NOW, &zone));
    assert_eq!(parse_timestamp("yesterday 12:00", noon, &zone), parse_timestamp("2026-03-28 12:00", NOW, &zone));
}

#[test]
fn zones_parse_and_their_errors_name_the_accepted_forms() {
    for text in ["UTC", "utc", "Z", "Europe/Berlin", "EUROPE/BERLIN", " UTC ", "+00:00", "+14", "-23:59", "local"] {
        assert!(parse_zone(text).is_ok(), "{text}");
    }
    assert_eq!(parse_zone("UTC").unwrap(), parse_zone("Z").unwrap());
    for text in
        ["", " ", "Berlin", "Europe/", "Europe/Berlinx", "+24:00", "+2", "02:00", "UTC+2", "../etc/passwd", "Zulu+1"]
    {
        let forms = "expected a time zone such as `Europe/Berlin`, `UTC`, `+02:00` or `local`, found ";
        assert_eq!(parse_zone(text).map_err(|error| error.to_string()), Err(format!("{forms}`{text}`")));
    }
}

#[test]
fn errors_of_timestamps_name_the_accepted_forms() {
    let error = |text: &str| parse_timestamp(text, NOW, &TimeZone::UTC).unwrap_err().to_string();
    for text in [
        "",
        "-",
        "Now",
        "-15m",
        "ago",
        "15m  ago now",
        "now-",
        "now 1h",
        "nowadays",
        "tomorrow",
        "today10:30",
        "today 10",
        "10:3",
        "10:30Z",
        "2026-11-20T",
        "2026-11",
        "1e99999",
        "1.",
    ] {
        let form = "expected a time such as `15m` (that long ago), `now-1h`, `today`, `yesterday`, `10:30`, \
                    `2026-11-20`, `2026-11-20 23:10`, `2026-11-20T23:10:00Z` or `1795216200` (Unix seconds), found ";
        assert_eq!(error(text), format!("{form}`{text}`"));
    }
    for text in [
        "2026-13-01",
        "2026-02-29",
        "2026-02-29 10:00",
        "25:00",
        "10:60",
        "10:30:61",
        "today 24:00",
        "2026-11-20 24:00",
    ] {
        let check = "does not exist: check the month, the day, the hour, the minute and the second";
        assert_eq!(error(text), format!("`{text}` {check}"));
    }
    for text in [
        "-1",
        "-1795216200.5",
        "281474976710656000000",
        "9999999999999999999999999999999999999999999999999999999999",
        "1e9999",
        "1969-12-31",
        "1969-12-31T23:59:59.999999999Z",
        "1970-01-01T00:00:00+00:01",
        "0000-01-01",
        "10889-08-02T05:31:50.656Z",
        "10889-08-02T05:31:50.656",
        "99999-12-31",
    ] {
        assert_eq!(error(text), format!("expected a time from 1970 to the year 10889, found `{text}`"));
    }
}

#[test]
fn times_print_in_utc_with_microseconds() {
    let check = |ms: u64, nanos: u32, want: &str| assert_eq!(format_rfc3339(Millis(ms), nanos), want);
    check(0, 0, "1970-01-01T00:00:00.000000Z");
    check(NOW.0 + 123, 456_789, "2026-11-20T23:10:00.123456Z");
    check(NOW.0 + 123, 999, "2026-11-20T23:10:00.123000Z");
    check(NOW.0 + 123, 5_000_000, "2026-11-20T23:10:00.123999Z");
    check(951_782_399_999, 0, "2000-02-28T23:59:59.999000Z");
    check(951_782_400_000, 0, "2000-02-29T00:00:00.000000Z");
    check(4_107_542_400_000, 0, "2100-03-01T00:00:00.000000Z");
    check(253_402_300_799_999, 0, "9999-12-31T23:59:59.999000Z");
    check(253_402_300_800_000, 0, "10000-01-01T00:00:00.000000Z");
    check(Millis::MAX.0, 999_999, "10889-08-02T05:31:50.655999Z");
    // Exceeds every id, but must not panic.
    check(u64::MAX, u32::MAX, "584556019-04-03T14:25:51.615999Z");
}

#[test]
fn event_time_texts_parse() {
    let check = |text: &str, ms: u64, nanos: u32| {
        assert_eq!(event_time_text(text.as_bytes()), Some((Millis(ms), nanos)), "{text}");
    };
    check("2026-11-20T23:10:00Z", NOW.0, 0);
    check("2026-11-20t23:10:00z", NOW.0, 0);
    check("2026-11-20 23:10:00", NOW.0, 0);
    check("2026-11-20T23:10", NOW.0, 0);
    check("2026-11-21 00:10:00.123456789+01:00", NOW.0 + 123, 456_789);
    check("2026-11-21 00:10:00,5+0100", NOW.0 + 500, 0);
    check("2026-11-21 00:10:00.000000001+01", NOW.0, 1);
    check("2026-11-20T23:10:00.1234567899999999999999999999999999999999999999999Z", NOW.0 + 123, 456_789);
    check("2026-11-20T23:10:00-00:00", NOW.0, 0);
    check("2016-12-31T23:59:60Z", 1_483_228_800_000, 0);
    check("2000-02-29T00:00:00Z", 951_782_400_000, 0);
}

#[test]
fn invalid_event_time_texts_are_rejected() {
    for text in [
        "",
        "2026-11-20",
        "2026-11-20T",
        "2026-11-20T23",
        "2026-11-20T23:10:00X",
        "2026-11-20T23:10:00Z ",
        " 2026-11-20T23:10:00Z",
        "2026-11-20T24:00:00Z",
        "2026-11-20T23:60:00Z",
        "2026-11-20T23:10:61Z",
        "2026-11-20T23:10:00.Z",
        "2026-11-20T23:10:00+",
        "2026-11-20T23:10:00+1",
        "2026-11-20T23:10:00+01:",
        "2026-11-20T23:10:00+01:0",
        "2026-11-20T23:10:00+24:00",
        "2026-11-20T23:10:00+01:60",
        "2026-11-20T23:10:00+01:00Z",
        "2026-11-20_23:10:00Z",
        "2026-00-20T23:10:00Z",
        "2026-11-00T23:10:00Z",
        "2026-11-31T23:10:00Z",
        "1900-02-29T23:10:00Z",
        "1969-12-31T23:59:59Z",
        "26-11-20T23:10:00Z",
        "102026-11-20T23:10:00Z",
        "2026-1-20T23:10:00Z",
        "1795216200",
    ] {
        assert_eq!(event_time_text(text.as_bytes()), None, "{text}");
    }
    assert_eq!(event_time_text(b"2026-11-20T23:10:0\xffZ"), None);
}

#[test]
fn event_time_numbers_parse() {
    let check = |text: &str, ms: u64, nanos: u32| {
        assert_eq!(event_time_number(text), Some((Millis(ms), nanos)), "{text}");
    };
    check("0", 0, 0);
    check("0.000000001", 0, 1);
    check("0.0000000019", 0, 1);
    check("1795216200", NOW.0, 0);
    check("1795216200.123456789", NOW.0 + 123, 456_789);
    check("1795216200123", NOW.0 + 123, 0);
    check("1795216200123.456789", NOW.0 + 123, 456_789);
    check("1795216200123456", NOW.0 + 123, 456_000);
    check("1795216200123456.7899", NOW.0 + 123, 456_789);
    check("1795216200123456789", NOW.0 + 123, 456_789);
    check("1795216200123456789.9", NOW.0 + 123, 456_789);
    check("1.7952162e9", NOW.0, 0);
    check("1.795216200123456789E+18", NOW.0 + 123, 456_789);
    check("17952162001234567890e-1", NOW.0 + 123, 456_789);
    check("1795216200000e-3", NOW.0, 0);
    check("5e-9999", 0, 0);
    check("0e9999", 0, 0);
}

#[test]
fn invalid_event_time_numbers_are_rejected() {
    for text in
        ["", "-1", "+1", " 1", "1 ", ".5", "1.", "1e", "1e+", "0x1", "1_0", "inf", "NaN", "1e99999", "1e30", "１"]
    {
        assert_eq!(event_time_number(text), None, "{text}");
    }
}

/// A time within the range of `jiff`, at any offset.
fn any_time() -> impl Strategy<Value = (Millis, u32)> {
    (0..253_370_000_000_000_u64, 0..1_000_000_u32).prop_map(|(ms, nanos)| (Millis(ms), nanos))
}

fn jiff(at: Millis, nanos: u32) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(at.0) * 1_000_000 + i128::from(nanos)).unwrap()
}

proptest! {
    #[test]
    fn printing_agrees_with_jiff((at, nanos) in any_time()) {
        let mut out = b"at ".to_vec();
        write_rfc3339(&mut out, at, nanos);
        let micros = jiff(at, nanos / 1_000 * 1_000);
        prop_assert_eq!(String::from_utf8(out).unwrap(), format!("at {micros:.6}"));
    }

    #[test]
    fn parsing_agrees_with_jiff((at, nanos) in any_time(), offset in -23 * 60..23 * 60_i32) {
        let zone = TimeZone::fixed(tz::Offset::from_seconds(offset * 60).unwrap());
        let text = jiff(at, nanos).to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%.f%:z").to_string();
        prop_assert_eq!(event_time_text(text.as_bytes()), Some((at, nanos)), "{}", text);
    }

    #[test]
    fn printed_times_parse(ms in 0..=Millis::MAX.0, nanos in 0..1_000_000_u32) {
        let text = format_rfc3339(Millis(ms), nanos);
        prop_assert_eq!(event_time_text(text.as_bytes()), Some((Millis(ms), nanos / 1_000 * 1_000)), "{}", text);
        prop_assert_eq!(parse_timestamp(&text, NOW, &TimeZone::UTC), Ok(Millis(ms)));
    }

    #[test]
    fn local_times_agree_with_jiff((at, nanos) in any_time(), name in 0..400_usize) {
        let name = jiff::tz::db().available().nth(name).unwrap();
        let zone = parse_zone(name.as_str()).unwrap();
        let local = jiff(at, nanos).to_zoned(zone.clone()).datetime();
        let want = local.to_zoned(zone.clone()).unwrap().timestamp().as_millisecond();
        let text = local.to_string();
        let got = parse_timestamp(&text, NOW, &zone).map_or(-1, |at| at.0.cast_signed());
        prop_assert_eq!(got, want.max(-1), "{} in {}", text, name.as_str());
    }

    #[test]
    fn numbers_are_exact_in_every_unit(ms in 100_000_000_000..99_999_999_999_999_u64, nanos in 0..1_000_000_u32) {
        let nanoseconds = format!("{ms}{nanos:06}");
        for places in [9, 6, 3] {
            let (whole, fraction) = nanoseconds.split_at(nanoseconds.len() - places);
            prop_assert_eq!(event_time_number(&format!("{whole}.{fraction}")), Some((Millis(ms), nanos)));
        }
        prop_assert_eq!(event_time_number(&nanoseconds), Some((Millis(ms), nanos)));
    }

    #[test]
    fn parsers_accept_any_input_without_panic(text in "\\PC*", times in "[-0-9TZ:.,+eE wdhms]{0,40}", bytes: Vec<u8>) {
        for text in [&text, &times] {
            let _ = (parse_duration(text), parse_timestamp(text, NOW, &TimeZone::UTC), parse_zone(text), event_time_number(text));
            let _ = event_time_text(text.as_bytes());
        }
        let _ = event_time_text(&bytes);
    }
}

#[test]
fn every_date_round_trips() {
    for day in 0..Millis::MAX.0 / 86_400_000 {
        let (year, month, date) = civil::date_from_days(day);
        let (year, month, date) = (year.cast_signed(), month.cast_signed(), date.cast_signed());
        assert_eq!(civil::days_from_date(year, month, date), Some(day.cast_signed()));
    }
}

#[test]
fn each_name_of_a_unit_and_each_digit_of_a_fraction_counts() {
    let check = |text: &str, nanos: u128| assert_eq!(duration_nanos(text.as_bytes()), Some(nanos), "{text}");
    for second in ["s", "sec", "secs", "second", "seconds"] {
        check(&format!("2 {second}"), 2_000_000_000);
    }
    for hour in ["h", "hr", "hrs", "hour", "hours"] {
        check(&format!("1{hour}"), 3_600_000_000_000);
    }
    check("0.000000001w", 604_800);
}
