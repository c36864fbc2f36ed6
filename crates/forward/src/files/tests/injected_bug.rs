//! Errors that the histories must find, to prove that they find errors.

/// A deliberate error of the agent, of its disk, or of the count of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgentBug {
    /// The node acknowledges a batch that it has not stored: what an agent does that removes a batch too early.
    AckedUnstored,
    /// A new connection begins behind the first unacknowledged batch.
    FirstBatchSkipped,
    /// Positions and buffer are gone after a kill.
    StateForgotten,
    /// The newest entry of the buffer is gone after a kill: a batch was sent before it was written.
    SentBeforeWritten,
    /// A state of the buffer from before returns after a kill.
    StateRolledBack,
    /// Records that are dropped from a full buffer are not counted.
    DropsUncounted,
    /// Batches in damaged parts of the buffer are not counted.
    DamageUncounted,
    /// Positions move to the end of the files at each start, as with `--read-from end`.
    StartsAtEnd,
}

impl AgentBug {
    /// All bugs, each with the number of seeds within which it is found.
    pub(super) const ALL: [(Self, u64); 8] = [
        (Self::AckedUnstored, 50),
        (Self::FirstBatchSkipped, 50),
        (Self::StateForgotten, 50),
        (Self::SentBeforeWritten, 100),
        (Self::StateRolledBack, 100),
        (Self::DropsUncounted, 300),
        (Self::DamageUncounted, 300),
        (Self::StartsAtEnd, 100),
    ];
}
