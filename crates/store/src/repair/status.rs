//! How repair is getting on.

use bucksaw_record::{Id, Millis};

/// How repair is getting on, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// When the pass that is under way began, by the wall clock.
    pub began: Option<Millis>,
    /// Where it has come to: it goes from the newest record to the oldest.
    pub at: Option<Millis>,
    /// When the last pass that came to its end began: stores that went down before that were made good.
    pub walked: Option<Millis>,
    /// Stores that are lost, by the marks of what they told last, and need not come back for anything that this one holds:
    /// a pass that began when they were lost has ended, and all of it is held by enough of the others. By their ids.
    pub made_good: Vec<u64>,
    /// Records that this store is responsible for and that too few stores hold, as last seen.
    pub missing: u64,
    /// Windows that are looked at again, because a store could not be asked or took nothing.
    pub put_off: usize,
    /// Stores that are taken for lost.
    pub lost: Vec<Id>,
    /// Copies of records made since the start.
    pub restored_records: u64,
    /// Bytes of segment files sent for that.
    pub restored_bytes: u64,
}
