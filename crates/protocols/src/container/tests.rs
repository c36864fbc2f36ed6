//! Lines of each format, and the fast reader against the general one.

use proptest::prelude::*;

use super::docker::DockerReader;
use super::runtime_times::RuntimeTimes;
use super::{ContainerDecoder, ContainerFormat};

/// A line as text: `time stream P|F text|attributes`.
fn show(decoder: &mut ContainerDecoder, format: ContainerFormat, line: &[u8]) -> String {
    let Some(line) = decoder.decode(format, line) else { return "none".to_owned() };
    let attributes: Vec<String> =
        line.attributes.iter().map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value))).collect();
    let (at, below) = line.time;
    format!(
        "{at}.{below:06} {} {} {}|{}",
        line.stream.name(),
        if line.is_partial { "P" } else { "F" },
        line.text.escape_ascii(),
        attributes.join(";")
    )
}

#[test]
fn lines_of_the_container_runtime_interface() {
    let mut decoder = ContainerDecoder::default();
    let mut check = |line: &[u8], want: &str| {
        assert_eq!(show(&mut decoder, ContainerFormat::Any, line), want, "{}", line.escape_ascii());
    };
    check(b"2023-11-14T22:13:20.123456789Z stdout F hello world", "1700000000123.456789 stdout F hello world|");
    check(b"2023-11-14T22:13:20.1Z stderr P \xff{\"a\":1}", "1700000000100.000000 stderr P \\xff{\\\"a\\\":1}|");
    check(b"2023-11-14T23:13:20.5+01:00 stdout F:tag:x  two", "1700000000500.000000 stdout F  two|");
    check(b"2023-11-14T22:13:20Z stdout P:x ", "1700000000000.000000 stdout P |");
    check(b"2023-11-14T22:13:20Z stdout F", "none");
    check(b"2023-11-14T22:13:20Z stdout X text", "none");
    check(b"2023-11-14T22:13:20Z stdlog F text", "none");
    check(b"yesterday stdout F text", "none");
    check(b"", "none");
    check(b"\0\0\0\0", "none");
    let mut decoder = ContainerDecoder::default();
    assert_eq!(show(&mut decoder, ContainerFormat::Docker, b"2023-11-14T22:13:20Z stdout F x"), "none");
}

#[test]
fn objects_of_docker() {
    let mut decoder = ContainerDecoder::default();
    let mut check = |line: &str, want: &str| {
        assert_eq!(show(&mut decoder, ContainerFormat::Any, line.as_bytes()), want, "{line}");
    };
    let time = r#""time":"2023-11-14T22:13:20.000000001Z""#;
    let at = "1700000000000.000001";
    check(&format!(r#"{{"log":"plain\n","stream":"stdout",{time}}}"#), &format!("{at} stdout F plain|"));
    check(&format!(r#"{{"log":"part","stream":"stderr",{time}}}"#), &format!("{at} stderr P part|"));
    check(&format!(r#"{{"log":"","stream":"stderr",{time}}}"#), &format!("{at} stderr P |"));
    check(&format!(r#"{{"log":"\n","stream":"stderr",{time}}}"#), &format!("{at} stderr F |"));
    check(
        &format!(r#"{{"log":"\u003ca\u00e4\ud83d\ude00\"\\\/\t\r\b\f\n\n","stream":"stdout",{time}}}"#),
        &format!("{at} stdout F <a\\xc3\\xa4\\xf0\\x9f\\x98\\x80\\\"\\\\/\\t\\r\\x08\\x0c\\n|"),
    );
    let attrs = r#""attrs":{"tag":"web","env":{"a":1}},"#;
    for _ in 0..2 {
        check(
            &format!(r#"{{"log":"x\n","stream":"stdout",{attrs}{time}}}"#),
            &format!("{at} stdout F x|tag=web;env.a=1"),
        );
    }
    check(&format!(r#"{{"log":"x\n","stream":"stdout",{time}}}"#), &format!("{at} stdout F x|"));
    check(&format!(r#" {{ {time}, "stream" : "stdout", "log":"x\n"}}"#), "none");
    check(&format!(r#"{{ {time}, "stream" : "stdout", "log":"x\n", "n":7}}"#), &format!("{at} stdout F x|n=7"));
    check(&format!(r#"{{"log":"x\n","stream":"stdout",{time},"attrs":null}}"#), &format!("{at} stdout F x|"));
    for wrong in [
        format!(r#"{{"log":"x\ud800\n","stream":"stdout",{time}}}"#),
        format!(r#"{{"log":"x\q\n","stream":"stdout",{time}}}"#),
        format!(r#"{{"log":7,"stream":"stdout",{time}}}"#),
        format!(r#"{{"log":"x\n","stream":"stdin",{time}}}"#),
        format!(r#"{{"log":"x\n",{time}}}"#),
        format!("{{\"log\":\"x\ty\\n\",\"stream\":\"stdout\",{time}}}"),
        format!(r#"{{"log":"x\n","stream":"stdout","attrs":{{"":1,"{}":2}},{time}}}"#, "n".repeat(300)),
        r#"{"log":"x\n","stream":"stdout","time":"now"}"#.to_owned(),
        r#"{"log":"x\n","stream":"stdout"}"#.to_owned(),
        r#"{"log":"x"#.to_owned(),
        r#"{"level":"info","message":"an object of an application"}"#.to_owned(),
    ] {
        check(&wrong, "none");
    }
}

/// JSON that is nearly, or exactly, the canonical form.
fn any_object() -> impl Strategy<Value = Vec<u8>> {
    let text = prop::collection::vec(
        prop_oneof![
            4 => Just("a".to_owned()),
            2 => Just("\\n".to_owned()),
            1 => "[ -~ä😀]{0,3}".prop_map(|text| serde_json::to_string(&text).unwrap().trim_matches('"').to_owned()),
            1 => "\\\\u[0-9a-fA-FdD]{4}",
            1 => Just("\\ud83d\\ude00".to_owned()),
            1 => "\\\\[a-z\"\\\\/]",
            1 => Just("\t".to_owned()),
            1 => Just("\"".to_owned()),
        ],
        0..6,
    );
    let stream = prop_oneof![6 => Just("stdout"), 3 => Just("stderr"), 1 => Just("stdin")];
    let attrs = prop_oneof![
        4 => Just(""),
        2 => Just("\"attrs\":{\"tag\":\"x\"},"),
        1 => Just("\"attrs\":{\"tag\":\"}\\\"\",\"b\":{\"c\":1}},"),
        1 => Just("\"attrs\":{},"),
        1 => Just("\"attrs\":{,"),
    ];
    let time = prop_oneof![6 => "2026-11-24T22:4[01]:[0-6][0-9](\\.[0-9]{1,9})?Z", 1 => "[ -~]{0,9}"];
    let object = (text, stream, attrs, time).prop_map(|(text, stream, attrs, time)| {
        format!(r#"{{"log":"{}","stream":"{stream}",{attrs}"time":"{time}"}}"#, text.concat()).into_bytes()
    });
    (object, prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>()))).prop_map(|(mut line, broken)| {
        if let Some((at, byte)) = broken {
            let at = at.index(line.len());
            line[at] = byte;
        }
        line
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// What the fast reader accepts, the JSON reader reads the same.
    #[test]
    fn both_readers_of_docker_agree(lines in prop::collection::vec(any_object(), 1..6)) {
        let (mut fast, mut times) = (DockerReader::default(), RuntimeTimes::default());
        for line in lines {
            let mut general = DockerReader::default();
            let want = general.read_any(&line, &mut RuntimeTimes::default());
            let canonical = fast.read_canonical(&line, &mut times);
            if let Some(read) = canonical {
                let want = want.unwrap();
                let text = read.text.unwrap_or(fast.text());
                prop_assert_eq!((text, fast.attributes()), (general.text(), general.attributes()));
                prop_assert_eq!(read, super::line::DecodedParts { text: read.text, ..want });
            }
            // Learns the attributes.
            let read = fast.read(&line, &mut times);
            prop_assert_eq!(read.is_some(), want.is_some());
        }
    }

    #[test]
    fn the_form_that_docker_writes_takes_the_fast_reader(text in "\\PC{0,40}\n?") {
        let line = format!(r#"{{"log":{},"stream":"stdout","time":"2026-11-24T22:40:04Z"}}"#, serde_json::json!(text));
        let mut reader = DockerReader::default();
        let read = reader.read_canonical(line.as_bytes(), &mut RuntimeTimes::default()).unwrap();
        prop_assert_eq!(read.is_partial, !text.ends_with('\n'));
        prop_assert_eq!(read.text.unwrap_or(reader.text()), text.strip_suffix('\n').unwrap_or(&text).as_bytes());
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(line in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = ContainerDecoder::default().decode(ContainerFormat::Any, &line);
        let _ = ContainerDecoder::default().decode(ContainerFormat::Docker, &line);
    }
}
