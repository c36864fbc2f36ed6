//! Asking another store whether it has walked over all that it holds.
//!
//! ```text
//!   store                                                     store
//!     ── store/repair-pass {boot, pass, from_ms, to_ms} ──►          begins a pass, if `begin` are not begun
//!     ◄── {boot, passes_begun, last_clean_pass, damaged, since_ms} ──────
//! ```
//! Passes are numbered from 1 since the store was started, and `boot` is another one at each start. So who asks knows a pass that
//! began after its question by its number, and no clock is compared with another.
//! What a store has let go of for want of room no pass looks for, so about that time its passes say nothing.

use bucksaw_record::Millis;
use serde::{Deserialize, Serialize};

use super::time_range::TimeRange;

/// The call that asks.
pub const PASS_STATUS: &str = "store/repair-pass";

/// The question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PassStatusRequest {
    /// The start of the store to which `begin` belongs; 0 when it is not known.
    pub(crate) boot: u64,
    /// The number of passes that are to be begun.
    pub(crate) pass: u64,
    /// The time about which it is asked, without its end.
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
}

/// The answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct PassStatusReply {
    /// Another number at each start.
    pub(crate) boot: u64,
    /// Passes that were begun since.
    pub(crate) passes_begun: u64,
    /// The last pass that ended with nothing left that has too few copies; 0 when none did.
    pub(crate) last_clean_pass: u64,
    /// Whether anything of that time is damaged there, and was not made good.
    pub(crate) damaged: bool,
    /// Records of an earlier time were let go for want of room. Without the field, records of any time may have been.
    #[serde(default = "no_proof")]
    pub(crate) since_ms: u64,
}

fn no_proof() -> u64 {
    u64::MAX
}

impl PassStatusReply {
    /// What it says about damage of records that begin at a time.
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
