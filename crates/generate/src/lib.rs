//! Generates sample log lines that resemble the mixed output of a small fleet, from a seed.
//!
//! Used by `bucksaw generate`, by tests, and by benchmarks without a corpus. Real logs are skewed: a few users make
//! most requests, latencies have long tails, errors come in bursts. The lines are skewed likewise, because
//! measurements on uniform noise mislead.
//!
//! A [`Generator`] produces the lines and a [`LineSchedule`] says how many are due. Neither reads a clock, sleeps or
//! does I/O: the caller passes times and writes the bytes.
//!
//! Invariant: equal [`Config`], start and times give equal bytes on every machine. Only [`LineSchedule::new`] uses
//! floating point.
//!
//! All addresses and names are fictitious: addresses are from documentation ranges, hosts are below `example.com` and
//! `example.org`.
//!
//! ```
//! use bucksaw_generate::{Config, SampleFormat, Generator};
//! let config = Config { format: SampleFormat::Text, size: Some(120), seed: 7 };
//! let mut generator = Generator::new(config, 1_700_000_000_000);
//! let mut lines = Vec::new();
//! for ms in 0..10 {
//!     generator.append_line(&mut lines, 1_700_000_000_000 + ms);
//! }
//! assert_eq!(lines.len(), 10 * (120 + 1));
//! ```
#![deny(clippy::indexing_slicing)]

mod append_text;
mod config;
mod fill;
mod fit;
mod fleet;
mod generator;
mod incidents;
mod kinds;
mod line_schedule;
mod padding;
mod rng;
mod template;
mod timestamp_texts;
mod weighted_choice;
mod words;

pub use config::{Config, SampleFormat};
pub use generator::Generator;
pub use line_schedule::LineSchedule;
