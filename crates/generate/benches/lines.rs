//! Lines and bytes per second of the generator on one core.
//!
//! `cargo bench -p bucksaw-generate` prints a line for each format; each run checks its output.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use bucksaw_env::{Clock, real};
use bucksaw_generate::{Config, Generator, SampleFormat};

const LINES: u64 = 4_000_000;
/// Lines per millisecond: one million per second, and one thousand per second with a distinct time for every line.
const STEPS: [u64; 2] = [1_000, 1];

fn main() {
    let clock = real::Clock::default();
    for format in [SampleFormat::Text, SampleFormat::Json] {
        for size in [None, Some(128), Some(1_000)] {
            for lines_per_ms in STEPS {
                let mut generator = Generator::new(Config { format, size, seed: 1 }, 0);
                let mut out = Vec::with_capacity(2 << 20);
                let mut bytes = 0;
                let started = clock.uptime();
                for n in 0..LINES {
                    generator.append_line(&mut out, 1_763_681_341_000 + n / lines_per_ms);
                    if out.len() > 1 << 20 {
                        bytes += out.len();
                        out.clear();
                    }
                }
                let seconds = (clock.uptime() - started).as_secs_f64();
                bytes += out.len();
                assert!(size.is_none_or(|size| bytes == LINES as usize * (size + 1)));
                let (lines, mb) = (LINES as f64 / seconds / 1e6, bytes as f64 / seconds / 1e6);
                println!("{format:?} {size:?} {lines_per_ms}/ms: {lines:.2} M lines/s, {mb:.0} MB/s");
            }
        }
    }
}
