//! The messages of the call `store/repair-pass`: which repair passes another store has begun and completed.
//!
//! Passes are numbered from 1 since the start of the process, and `boot` differs for each process. So the caller recognises a
//! pass that began after its request by the number, without comparing clocks.
//! A pass does not look for records that retention by size has removed, so it proves nothing about their time.

use bucksaw_record::Millis;
use serde::{Deserialize, Serialize};

use super::time_range::TimeRange;

/// The name of the call.
pub const PASS_STATUS: &str = "store/repair-pass";

/// The request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PassStatusRequest {
    /// The process of the called store to which `pass` belongs; 0 if unknown.
    pub(crate) boot: u64,
    /// The pass to begin; 0 for none.
    pub(crate) pass: u64,
    /// The time range of the damage, without its end.
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
}

/// The reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PassStatusReply {
    /// Differs for each process.
    pub(crate) boot: u64,
    /// Number of passes begun by this process.
    pub(crate) passes_begun: u64,
    /// The last pass after which no record was under-replicated; 0 for none.
    pub(crate) last_clean_pass: u64,
    /// Whether the store has damage in the time range that is not re-replicated.
    pub(crate) damaged: bool,
    /// Retention by size has removed earlier records. If the field is missing, any record may have been removed.
    #[serde(default = "no_proof")]
    pub(crate) since_ms: u64,
}

fn no_proof() -> u64 {
    u64::MAX
}

impl PassStatusReply {
    /// The reply as evidence for damaged records from `low` on.
    pub(crate) fn for_damage_from(self, low: Millis) -> Self {
        let last_clean_pass = if self.since_ms <= low.0 { self.last_clean_pass } else { 0 };
        Self { last_clean_pass, ..self }
    }
}

impl PassStatusRequest {
    pub(crate) fn range(self) -> TimeRange {
        TimeRange { from: Millis(self.from_ms.min(Millis::MAX.0)), to: Millis(self.to_ms.min(TimeRange::ALL.to.0)) }
    }
}
