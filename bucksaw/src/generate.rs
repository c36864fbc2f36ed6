//! `bucksaw generate`: realistic log lines on standard output, at a rate.
#![allow(clippy::disallowed_methods, reason = "the program itself runs on a real machine")]

use std::thread;
use std::time::Duration;

use bucksaw_env::{Clock, real};
use bucksaw_generate::{Config, Generator, LineSchedule, SampleFormat};
use clap::{Args, ValueEnum};

use crate::exit::Exit;
use crate::interrupt;
use crate::print::Out;
use crate::values::ByteSize;

/// How often is looked which lines are due.
const TICK: Duration = Duration::from_millis(50);

/// Lines are made and written in pieces of about this size, in bytes, and those of a piece have the same time.
const BATCH_BYTES: usize = 64 << 10;

/// The longest line that is made, in bytes: well beyond what a node takes as one record.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Write realistic log lines
///
/// The lines are like those of a small fleet: web access, logfmt, Java, database and system lines, with bursts of errors.
#[derive(Clone, Debug, Args)]
pub(crate) struct GenerateArgs {
    /// How many lines a second; 0 is as fast as possible
    #[arg(long, value_name = "LINES/S", default_value = "10", value_parser = rate)]
    rate: f64,

    /// Length of every line; left out, they are as long as they come
    #[arg(long, value_name = "BYTES", value_parser = line_bytes)]
    size: Option<usize>,

    /// Stop after N lines; left out, lines are written for ever
    #[arg(long, value_name = "N")]
    count: Option<u64>,

    /// Lines of different seeds differ
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// How lines are written
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    format: LineFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LineFormat {
    /// Lines of many kinds
    Text,
    /// One JSON object a line
    Json,
}

pub(crate) fn run(args: GenerateArgs) -> anyhow::Result<Exit> {
    interrupt::exit_on_interrupt()?;
    let format = match args.format {
        LineFormat::Text => SampleFormat::Text,
        LineFormat::Json => SampleFormat::Json,
    };
    let clock = real::Clock::default();
    let mut lines = LineWriter {
        generator: Generator::new(Config { format, size: args.size, seed: args.seed }, clock.unix_ms()),
        batch: Vec::with_capacity(2 * BATCH_BYTES),
        out: Out::stdout()?,
    };
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut pace = (args.rate > 0.0).then(|| LineSchedule::new(args.rate));
    while left > 0 {
        let due = pace.as_mut().map_or(left, |pace| pace.lines_due(clock.uptime())).min(left);
        left -= due;
        lines.write(due, &clock)?;
        if left > 0 {
            thread::sleep(TICK);
        }
    }
    Ok(Exit::Done)
}

/// Makes lines and writes them.
struct LineWriter {
    generator: Generator,
    batch: Vec<u8>,
    out: Out,
}

impl LineWriter {
    fn write(&mut self, mut count: u64, clock: &real::Clock) -> anyhow::Result<()> {
        while count > 0 {
            let now = clock.unix_ms();
            self.batch.clear();
            while count > 0 && self.batch.len() < BATCH_BYTES {
                self.generator.append_line(&mut self.batch, now);
                count -= 1;
            }
            self.out.write(&self.batch)?;
            self.out.flush()?;
        }
        Ok(())
    }
}

fn rate(text: &str) -> Result<f64, &'static str> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate >= 0.0);
    rate.ok_or("expected lines a second such as 10 or 0.5, or 0 for as fast as possible")
}

fn line_bytes(text: &str) -> Result<usize, String> {
    let size: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
    if size.0 == 0 || size.0 > LINE_BYTES_MAX {
        return Err(format!("expected a size from 1 to {LINE_BYTES_MAX} bytes"));
    }
    usize::try_from(size.0).map_err(|error| error.to_string())
}
