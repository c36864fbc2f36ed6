//! `bucksaw generate`: writes realistic log lines at a rate.

use std::thread;
use std::time::Duration;

use bucksaw_env::{Clock, real};
use bucksaw_generate::{Config, Generator, LineSchedule, SampleFormat};
use clap::{Args, ValueEnum};

use crate::exit::Exit;
use crate::interrupt;
use crate::print::Out;
use crate::values::{ByteSize, count};

/// Interval at which due lines are written.
const TICK: Duration = Duration::from_millis(50);

/// Approximate size of a batch of lines in bytes. The lines of a batch have the same time.
const BATCH_BYTES: usize = 64 << 10;

/// Longest line in bytes, far beyond the longest record of a node.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Write realistic log lines
///
/// The lines resemble those of a small fleet: web access, logfmt, Java, database and system lines, with bursts of
/// errors.
#[derive(Clone, Debug, Args)]
pub(crate) struct GenerateArgs {
    /// Lines per second; 0 for as fast as possible
    #[arg(long, value_name = "LINES/S", default_value = "10", value_parser = rate)]
    rate: f64,

    /// Length of every line; defaults to natural lengths
    #[arg(long, value_name = "BYTES", value_parser = line_bytes)]
    size: Option<usize>,

    /// Stop after N lines; defaults to never
    #[arg(long, value_name = "N", value_parser = count)]
    count: Option<u64>,

    /// Seed of the lines; other seeds give other lines
    #[arg(long, value_name = "N", default_value = "1", value_parser = count)]
    seed: u64,

    /// Format of the lines
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    format: LineFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LineFormat {
    /// Lines of many kinds
    Text,
    /// One JSON object per line
    Json,
}

pub(crate) fn run(args: GenerateArgs) -> anyhow::Result<Exit> {
    interrupt::exit_on_interrupt()?;
    let format = match args.format {
        LineFormat::Text => SampleFormat::Text,
        LineFormat::Json => SampleFormat::Json,
    };
    let clock = real::Clock::default();
    let mut generator = Generator::new(Config { format, size: args.size, seed: args.seed }, clock.unix_ms());
    let (mut batch, mut out) = (Vec::with_capacity(2 * BATCH_BYTES), Out::stdout()?);
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut schedule = (args.rate > 0.0).then(|| LineSchedule::new(args.rate));
    while left > 0 {
        let mut due = schedule.as_mut().map_or(left, |schedule| schedule.lines_due(clock.uptime())).min(left);
        left -= due;
        while due > 0 {
            let now = clock.unix_ms();
            batch.clear();
            while due > 0 && batch.len() < BATCH_BYTES {
                generator.append_line(&mut batch, now);
                due -= 1;
            }
            out.write(&batch)?;
            out.flush()?;
        }
        if left > 0 {
            thread::sleep(TICK);
        }
    }
    Ok(Exit::Done)
}

fn rate(text: &str) -> Result<f64, &'static str> {
    let rate = text.parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate >= 0.0);
    rate.ok_or("expected lines per second such as 10 or 0.5, or 0 for as fast as possible")
}

fn line_bytes(text: &str) -> Result<usize, String> {
    let size: ByteSize = text.parse()?;
    if size.0 == 0 || size.0 > LINE_BYTES_MAX {
        return Err(format!("expected a size from 1 to {LINE_BYTES_MAX} bytes"));
    }
    usize::try_from(size.0).map_err(|_| "expected a smaller size".to_owned())
}
