//! The times and sizes of the simulated nodes.
//!
//! The costs were measured by `bucksaw plan --sample` on two cores of an AMD EPYC, on 2026-11-27, on an idle store.

use std::time::Duration;

/// Bytes of text in a full default batch.
const BATCH_BYTES: f64 = (128_u32 << 20) as f64;

/// CPU seconds per byte of text of storing it: `store.seconds_per_byte`.
const STORE_SECONDS_PER_BYTE: f64 = 0.000_000_005_097_415_5;

/// Mean time in seconds of a gather: a full default batch on one core.
pub(super) const GATHER_SECONDS: f64 = BATCH_BYTES * STORE_SECONDS_PER_BYTE;

/// Coefficient of variation of the time of a gather. The calibration has none; batches differ in size and content.
pub(super) const GATHER_VARIATION: f64 = 0.5;

/// Mean and coefficient of variation of a sync.
pub(super) const SYNC_TIME: Duration = Duration::from_nanos(246_703);
pub(super) const SYNC_VARIATION: f64 = 0.772_886;

/// Appends in a full segment.
pub(super) const SEGMENT_APPENDS: u32 = 8;

/// Bytes of text of an append, with its line end.
pub(super) const APPEND_BYTES: usize = 400;

/// Bytes of text in a full segment.
pub(super) const SEGMENT_TEXT_BYTES: u64 = SEGMENT_APPENDS as u64 * APPEND_BYTES as u64;

/// Bytes of the file of a full queue segment: room for the frames of eight appends with their headers, and not for nine.
pub(super) const SEGMENT_FILE_BYTES: u64 = SEGMENT_TEXT_BYTES + APPEND_BYTES as u64 + 300;
