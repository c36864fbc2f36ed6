//! The way into the queue for the records of every source.
//!
//! ```text
//!   TCP lines   chunk ─► LineSplitter ─► Records ─────────────────────────┐
//!   HTTP lines  body ──► LineSplitter ─► RecordBuffer ─► Records ─────────┤ ids, clamped times,  ─► Queue::append
//!   HTTP NDJSON body ──► LineSplitter ─► event_time ─► RecordBuffer ──────┤ row metadata
//!   protocols   bytes ─► decoder ─► EventRecords ─► a RecordBuffer per stream
//!   framed      batch ─► Frame with ids and row metadata of the client ───┘
//! ```
//! A source decodes: it yields records with optional event times ([`Records`], or a [`RecordBuffer`] that collects them). A
//! [`RecordStream`] does the rest: it assigns ids, replaces times too far ahead of the clock, encodes the row metadata,
//! appends one frame, and counts. A source whose records have different labels uses one `RecordStream` per label set.
//!
//! Text is passed on as slices; nothing here copies it.
//!
//! Preparing and appending are two steps. [`RecordStream::prepare`] assigns ids once. An append that the queue refuses
//! for now is repeated with the same [`FrameMeta`], so records that the first append wrote are not stored twice.

mod clamp;
mod durability_wait;
mod event_filter;
mod event_records;
mod ids;
mod record_buffer;
mod record_stream;
mod records;
mod reserved;
mod retained_frames;
mod target;

pub use durability_wait::DurabilityWait;
pub use event_filter::{EventFilter, EventPlace, FilterCounts};
pub use event_records::{EventRecords, EventTarget};
pub use ids::{IdAssignment, PrepareError};
pub use record_buffer::RecordBuffer;
pub use record_stream::{FrameMeta, RecordStream};
pub use records::{RecordTime, Records};
pub use target::Intake;

#[cfg(test)]
mod event_tests;
#[cfg(test)]
pub(crate) mod tests;
