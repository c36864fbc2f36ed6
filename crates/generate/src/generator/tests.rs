//! Lines are reproducible, have the requested length, parse, and have the distributions of a fleet.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

const START: u64 = 1_763_681_341_000;

/// Generates `count` lines, one every three milliseconds.
fn lines(config: Config, count: u64) -> String {
    let mut generator = Generator::new(config, START);
    let mut out = Vec::new();
    (0..count).for_each(|n| generator.append_line(&mut out, START + n * 3));
    String::from_utf8(out).unwrap()
}

fn natural(format: SampleFormat, count: u64) -> String {
    lines(Config { format, size: None, seed: 42 }, count)
}

fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn equal_seeds_give_equal_lines() {
    for format in [SampleFormat::Text, SampleFormat::Json] {
        for size in [None, Some(300)] {
            let config = Config { format, size, seed: 9 };
            assert_eq!(lines(config.clone(), 2_000), lines(config.clone(), 2_000));
            assert_ne!(lines(config.clone(), 100), lines(Config { seed: 10, ..config }, 100));
        }
    }
}

#[test]
fn lines_do_not_change() {
    // Update these numbers after a deliberate change of the lines. Figures measured with the old lines are then
    // obsolete.
    let hashes = [
        fnv(&natural(SampleFormat::Text, 1_000)),
        fnv(&natural(SampleFormat::Json, 1_000)),
        fnv(&lines(Config { format: SampleFormat::Text, size: Some(500), seed: 0 }, 1_000)),
    ];
    assert_eq!(hashes, [1_785_353_124_330_123_486, 2_685_062_321_616_574_984, 14_474_736_916_236_749_006]);
}

#[test]
fn every_line_has_the_requested_size() {
    for format in [SampleFormat::Text, SampleFormat::Json] {
        for size in (0..700).chain([1_000, 1_024, 4_095, 4_096, 9_999, 10_000]) {
            let mut generator = Generator::new(Config { format, size: Some(size), seed: size as u64 }, START);
            let mut out = Vec::new();
            for n in 0..20 {
                generator.append_line(&mut out, START + n);
            }
            assert_eq!(out.len(), 20 * (size + 1));
            for line in str::from_utf8(&out).unwrap().split_terminator('\n') {
                assert_eq!(line.len(), size);
                if format == SampleFormat::Json && size > 0 {
                    let value = serde_json::from_str::<Value>(line).expect(line);
                    assert!(value.is_object() || size == 1, "{line}");
                    assert!(size < 80 || value.get("time").is_some() && value.get("level").is_some(), "{line}");
                }
            }
        }
    }
}

#[test]
fn lines_are_appended_without_control_characters() {
    for format in [SampleFormat::Text, SampleFormat::Json] {
        let text = natural(format, 20_000);
        assert_eq!(text.lines().count(), 20_000);
        for line in text.split_terminator('\n') {
            assert!(!line.chars().any(char::is_control), "{line}");
            assert!((30..700).contains(&line.len()), "{} bytes: {line}", line.len());
        }
        assert!(text.contains('→') && text.contains("zoë") && text.contains("%20") && text.contains("% "));
    }
}

#[test]
fn json_lines_have_all_fields_and_the_expected_levels() {
    let mut levels = HashMap::new();
    let count = 100_000;
    for (n, line) in natural(SampleFormat::Json, count).lines().enumerate() {
        let value: Value = serde_json::from_str(line).expect(line);
        let text = |name: &str| value[name].as_str().unwrap_or_else(|| panic!("{name} in {line}")).to_owned();
        let time: jiff::Timestamp = text("time").parse().unwrap();
        assert_eq!(time.as_millisecond() as u64, START + n as u64 * 3);
        assert_eq!((text("trace_id").len(), text("time").len()), (32, 24));
        assert!(!text("msg").is_empty() && !text("service").is_empty());
        if let Some(http) = value.get("http") {
            assert!(http["status"].is_u64() && http["duration_ms"].is_number() && http["path"].is_string(), "{line}");
            assert!(http["method"].is_string() && value["user"]["id"].is_u64(), "{line}");
        }
        *levels.entry(text("level")).or_insert(0u32) += 1;
    }
    check_shares(|level| levels[level], count as u32);
}

#[test]
fn text_lines_have_all_kinds_and_the_expected_levels() {
    let count = 200_000;
    let text = natural(SampleFormat::Text, count);
    let having = |word: &str| text.lines().filter(|line| line.contains(word)).count() as u32;
    let app = having("ts=20");
    check_shares(|level| having(&format!(" level={level} ")), app);
    let share = |lines: u32| lines * 100 / count as u32;
    assert!((29..35).contains(&share(app)));
    let web = having(" HTTP/1.1\" ") + having(" HTTP/2.0\" ");
    assert!((37..43).contains(&share(web)), "{web}");
    assert!((5..9).contains(&share(having(" UTC ["))));
    assert!((11..17).contains(&share(having(" INFO ") + having(" WARN ") + having(" ERROR [") + having(" DEBUG ["))));
    let fine = having("\" 200 ");
    assert!((65..85).contains(&(fine * 100 / web)), "{fine} of {web} are 200");
    for word in ["Failed password", "checkpoint complete", "SELECT ", "Exception: ", " 404 ", " 503 ", " 302 "] {
        assert!(having(word) > 20, "{word}");
    }
}

fn check_shares(of: impl Fn(&str) -> u32, all: u32) {
    for (level, least, most) in [("info", 82.0, 88.0), ("warn", 6.5, 9.5), ("error", 2.8, 5.5), ("debug", 2.3, 3.7)] {
        let share = f64::from(of(level)) * 100.0 / f64::from(all);
        assert!((least..most).contains(&share), "{share} % are {level}");
    }
}

#[test]
fn errors_come_in_bursts_of_seconds() {
    let mut per_second = HashMap::new();
    for line in natural(SampleFormat::Json, 200_000).lines().filter(|line| line.contains(r#""level":"error""#)) {
        *per_second.entry(line[9..28].to_owned()).or_insert(0u32) += 1;
    }
    let peaks = per_second.values().filter(|&&errors| errors > 70).count();
    assert!((5..60).contains(&peaks), "{peaks} seconds of 600 with more than a fifth of errors");
}

#[test]
fn sessions_and_users_recur_with_a_skew() {
    let mut seen = HashMap::new();
    for line in natural(SampleFormat::Json, 50_000).lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        if let Some(id) = value["user"]["id"].as_u64() {
            *seen.entry(id).or_insert(0u32) += 1;
        }
    }
    let all: u32 = seen.values().sum();
    let busiest = seen.values().max().unwrap();
    assert!(seen.len() > 500 && busiest * 15 > all && busiest * 6 < all, "{busiest} of {all}, {} users", seen.len());
}

proptest! {
    #[test]
    fn any_times_and_sizes(
        seed: u64,
        start: u64,
        json: bool,
        size in prop::option::of(0usize..2_000),
        times in prop::collection::vec(any::<u64>(), 1..40),
    ) {
        let format = if json { SampleFormat::Json } else { SampleFormat::Text };
        let mut generator = Generator::new(Config { format, size, seed }, start);
        let mut out = Vec::new();
        for &time in &times {
            let before = out.len();
            generator.append_line(&mut out, time);
            let line = str::from_utf8(&out[before..]).unwrap();
            prop_assert_eq!(line.find('\n'), Some(line.len() - 1));
            prop_assert!(size.is_none_or(|size| line.len() == size + 1));
        }
    }
}
