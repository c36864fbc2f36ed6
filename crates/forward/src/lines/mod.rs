//! What a line of a file becomes: one record, a part of one, or none.
//!
//! ```text
//!   text of a file ─► lines ─► container format ─► parts joined ─► multi-line events ─► filters ─► records of a batch
//!                              decoded per stream   └──────── EventReader ────────┘
//! ```
//! No step keeps text between two chunks of a file. An [`EventReader`] consumes whole events only; the tailer delivers the text
//! from the first incomplete event on again, also after a restart. So a restart loses and doubles nothing, whatever was open.

mod config;
mod config_error;
mod container_path;
mod event;
mod event_joiner;
mod event_reader;
mod event_rules;
mod file_lines;
mod filter;
mod line_decoder;
mod multiline;
mod open_event;
mod redaction;
mod stack_trace;
mod totals;

pub use config::{LineConfig, LogFormat};
pub use config_error::LineConfigError;
pub use container_path::{ContainerRef, PodRef};
pub(crate) use event::{LineEvent, LineEventSink};
pub(crate) use event_reader::{ChunkText, EventReader};
pub use event_rules::EventRules;
pub(crate) use file_lines::FileLines;
pub use filter::ShippingRules;
pub(crate) use filter::{StreamFilter, Verdict};
pub use multiline::Multiline;
pub use totals::LineTotals;
