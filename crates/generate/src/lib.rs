//! Sample log lines that look like the mixed output of a small fleet, made from a seed.
//!
//! They feed `bucksaw generate`, the tests, and the benchmarks that have no corpus at hand. Real logs are skewed: few
//! users make most of the requests, latencies have long tails, errors come in bursts. A store that is measured on even
//! noise looks better or worse than it is, so the lines here are skewed in the same ways.
//!
//! A [`Generator`] makes the lines and a [`Pace`] says how many of them are due. Neither reads a clock, sleeps or writes
//! anything: the caller passes the times in and the bytes on.
//!
//! Invariant: the same [`Config`], start and times give the same bytes, on every machine. Nothing here computes with
//! floating point but [`Pace::new`].
//!
//! Every address, host and name is made up: addresses are from the ranges kept for documentation, hosts are below
//! `example.com` and `example.org`.
//!
//! ```
//! use bucksaw_generate::{Config, Format, Generator};
//! let config = Config { format: Format::Text, size: Some(120), seed: 7 };
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
mod rng;
mod template;
mod timestamp_texts;
mod weighted_choice;
mod words;

pub use config::{Config, Format};
pub use generator::Generator;
pub use line_schedule::LineSchedule;
