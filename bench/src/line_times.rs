//! `line-times`: the CPU cost of reading the times that lines state, by form.
//!
//! Runs on one thread in this process. Each line ends with the same text, and the times are a few milliseconds apart, as in a
//! busy log. The cost of finding the line ends, which ingest pays anyway, is a figure of its own.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use bucksaw_record::time::{LineTimeReader, TimeZone, parse_zone};
use bucksaw_record::{Flags, Millis};
use clap::Args;
use jiff::Timestamp;
use memchr::memchr_iter;

use crate::context::{BenchContext, Size};
use crate::results::{BenchRun, Figure, figure};
use crate::{machine, process};

/// Bytes that are read at once, as a listener does.
const CHUNK_BYTES: usize = 64 << 10;

/// Lines of each form.
const LINES: i64 = 500_000;

/// The time of the first line, in milliseconds, and the distance of the lines.
const FIRST_MS: i64 = 1_795_560_004_000;
const STEP_MS: i64 = 7;

/// What follows the time in a line.
const MESSAGE: &str =
    "INFO order-service request finished id=4711 path=/api/v1/orders status=200 bytes=18233 duration=12.5ms";

/// Names and the beginnings of lines, in the notation of `strftime`.
const FORMS: [(&str, &str); 16] = [
    ("rfc3339", "%Y-%m-%dT%H:%M:%S.%6fZ "),
    ("java", "%Y-%m-%d %H:%M:%S,%3f DEBUG [pool-1] "),
    ("java_late", "DEBUG [MemtableFlush:1] %Y-%m-%d %H:%M:%S,%3f "),
    ("syslog", "%b %e %H:%M:%S host sshd[4711]: "),
    ("syslog_rfc5424", "<34>1 %Y-%m-%dT%H:%M:%S.%3fZ host app 7 - - "),
    ("apache", "192.168.100.27 - - [%d/%b/%Y:%H:%M:%S +0000] \"GET / HTTP/1.1\" 200 "),
    ("apache_error", "[%a %b %d %H:%M:%S.%6f %Y] [core:notice] "),
    ("nginx_error", "%Y/%m/%d %H:%M:%S [error] 7#7: "),
    ("go", "%Y/%m/%d %H:%M:%S.%6f main.go:7: "),
    ("glog", "I%m%d %H:%M:%S.%6f       1 main.go:7] "),
    ("postgres", "%Y-%m-%d %H:%M:%S.%3f UTC [7] LOG:  "),
    ("epoch_seconds", "%s.%3f "),
    ("epoch_ms", "%s%3f "),
    ("hdfs", "%y%m%d %H%M%S 148 "),
    ("json", "{\"level\":\"info\",\"time\":\"%Y-%m-%dT%H:%M:%S.%3fZ\",\"msg\":\""),
    ("none", "\tat com.example.Main.run(Main.java:105) "),
];

/// Measure the cost of reading times from lines
#[derive(Debug, Args)]
pub(crate) struct LineTimesArgs {
    /// Files of lines to read besides
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Zone of times without one
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    zone: String,

    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Bytes of a file to read, from its beginning
    #[arg(long, value_name = "SIZE", default_value = "64MB")]
    sample: Size,
}

pub(crate) fn run(args: &LineTimesArgs, context: &BenchContext) -> anyhow::Result<()> {
    let zone = parse_zone(&args.zone)?;
    let mut results = context.results("line-times")?;
    let mut texts = Vec::new();
    for (name, form) in FORMS {
        texts.push((name.to_owned(), lines(form)?, Some(name != "none")));
    }
    for file in &args.files {
        for corpus in context.corpora(std::slice::from_ref(file))? {
            texts.push((corpus.name(), corpus.sample(args.sample.0)?, None));
        }
    }
    for round in 1..=args.rounds as usize {
        for (name, text, states_time) in &texts {
            let load = machine::load();
            let figures = measure(text, &zone, *states_time).with_context(|| name.clone())?;
            results.runs.push(BenchRun { subject: name.clone(), round, load, figures });
        }
    }
    context.report_in_rows(&results)
}

/// Lines of a form.
fn lines(form: &str) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    for number in 0..LINES {
        let at = Timestamp::from_millisecond(FIRST_MS + number * STEP_MS)?.to_zoned(TimeZone::UTC);
        text.extend_from_slice(at.strftime(form).to_string().as_bytes());
        text.extend_from_slice(MESSAGE.as_bytes());
        text.push(b'\n');
    }
    Ok(text)
}

fn measure(text: &[u8], zone: &TimeZone, states_time: Option<bool>) -> anyhow::Result<Vec<Figure>> {
    let chunks: Vec<&[u8]> = chunks(text).collect();
    let before = process::thread_cpu_seconds()?;
    let lines: usize = chunks.iter().map(|chunk| memchr_iter(b'\n', chunk).map(std::hint::black_box).count()).sum();
    let split = process::thread_cpu_seconds()? - before;

    let now = Millis((FIRST_MS + LINES * STEP_MS).cast_unsigned());
    let mut reader = LineTimeReader::new(zone.clone());
    let (mut times, mut read, mut with_time) = (Vec::new(), 0, 0);
    let before = process::thread_cpu_seconds()?;
    for chunk in chunks {
        times.clear();
        reader.read(&[chunk], &Flags::empty(), now, &mut times);
        read += times.len();
        with_time += times.iter().filter(|time| time.is_some()).count();
    }
    let seconds = process::thread_cpu_seconds()? - before;
    ensure!(read == lines, "{read} of {lines} lines were read");
    let want = states_time.map(|states| if states { lines } else { 0 });
    ensure!(want.is_none_or(|want| want == with_time), "{with_time} of {lines} lines have a time");
    let per_line = 1e9 / lines.max(1) as f64;
    Ok(vec![
        figure("lines", "lines", lines as f64),
        figure("with_time", "lines", with_time as f64),
        figure("line_ends", "ns per line", split * per_line),
        figure("line_ends_and_times", "ns per line", seconds * per_line),
        figure("times", "ns per line", (seconds - split) * per_line),
    ])
}

/// Whole lines of about [`CHUNK_BYTES`].
fn chunks(mut text: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let head = text.get(..CHUNK_BYTES).unwrap_or(text);
        let end = memchr::memrchr(b'\n', head).or_else(|| memchr::memchr(b'\n', text))? + 1;
        let (chunk, rest) = text.split_at(end);
        text = rest;
        Some(chunk)
    })
}
