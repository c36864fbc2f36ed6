//! Injected bugs: deliberate errors that the checks of a run must find.
//!
//! The code of the product is unchanged. A bug wraps its environment, replaces one of its calls, changes a setting, or alters
//! what a client sends or receives.

pub(crate) mod answers;
pub(crate) mod calls;
pub(crate) mod files;
pub(crate) mod peers;

use std::fmt;

macro_rules! injected_bugs {
    ($($name:ident, $words:literal, $seeds_max:literal, $description:literal;)*) => {
        /// A deliberate error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum InjectedBug {
            $(#[doc = $description] $name,)*
        }

        impl InjectedBug {
            /// All bugs.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name of the bug.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $words),* }
            }

            /// What the bug does, and which mistake it stands for.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$name => $description),* }
            }

            /// One of the seeds from 0 up to this number finds the bug.
            pub const fn seeds_max(self) -> u64 {
                match self { $(Self::$name => $seeds_max),* }
            }
        }
    };
}

injected_bugs! {
    FileSyncSkipped, "file-sync-skipped", 40, "Syncing a file does nothing: a forgotten fsync.";
    DirSyncSkipped, "dir-sync-skipped", 40, "Syncing a directory does nothing: a file is durable, its name is not.";
    SyncFailureHidden, "sync-failure-hidden", 60, "A failed sync reports success: an error that is not checked.";
    StoreSyncSkipped, "store-sync-skipped", 40, "Only files of the store are not synced: queues delete records that no store has durably.";
    WritesBuffered, "writes-buffered", 40, "Writes are lost when the process is killed: a buffer in front of the file.";
    OldDisk, "old-disk", 60, "A machine restarts with an older state of its disk: a restored snapshot.";
    DamageForgotten, "damage-forgotten", 40, "Quarantined files are not found at the next start: answers over them claim to be complete.";
    PutDiscarded, "put-discarded", 40, "A replica is acknowledged and discarded.";
    PutAcknowledgedEarly, "put-acknowledged-early", 80, "A replica is acknowledged when it is received, before it is durable.";
    PutAcknowledgedUnread, "put-acknowledged-unread", 40, "A replica is acknowledged when its first bytes are received.";
    FetchCommits, "fetch-commits", 40, "The queue commits segments when a store fetches them, before they are stored.";
    AckCommitsReturned, "ack-commits-returned", 60, "The queue commits segments that a store returns.";
    AckForgotten, "ack-forgotten", 40, "A commit is acknowledged and not done: the queue never becomes empty.";
    SomeAcksForgotten, "some-acks-forgotten", 40, "The commit of one segment in eight is acknowledged and never done: a leak, these segments stay in the queue.";
    SomeSegmentsDropped, "some-segments-dropped", 40, "The queue commits one fetched segment in eight and does not send it: a loss, no store has these records.";
    LeaseNeverExpires, "lease-never-expires", 60, "A lease does not expire: segments fetched by a store that disappears stay in the queue.";
    WaitNeverDue, "wait-never-due", 40, "A queue reports to other nodes that nothing is due: no store fetches from it.";
    AppendAcknowledgedEarly, "append-acknowledged-early", 40, "Records are acknowledged before they are appended.";
    LastRecordDropped, "last-record-dropped", 10, "The last record of a batch is acknowledged and not appended: an off-by-one error.";
    DurableAsFast, "durable-as-fast", 40, "`durable` is acknowledged like `fast`.";
    BulkAsDurable, "bulk-as-durable", 250, "`bulk` is acknowledged before it is replicated.";
    RefusedButStored, "refused-but-stored", 10, "Records are refused and stored.";
    FailureReportedAsSuccess, "failure-reported-as-success", 60, "Every failed append is acknowledged.";
    FailureReportedAsRefusal, "failure-reported-as-refusal", 100, "An append with unknown outcome is reported as refused.";
    OneCopy, "one-copy", 10, "Stores run with a lower replication factor than configured for the cluster.";
    NoGrace, "no-grace", 150, "Committed segments are deleted at once: an answer that read the store first misses records that moved meanwhile.";
    EarlyRetention, "early-retention", 10, "Retention removes records far too early.";
    IdReused, "id-reused", 10, "A client gives one id to two records.";
    RetryWithNewIds, "retry-with-new-ids", 40, "A client gives records new ids when it retries.";
    NotMerged, "not-merged", 10, "The answers of all nodes are concatenated: equal ids are neither dropped nor counted once.";
    DownNodesIgnored, "down-nodes-ignored", 40, "Nodes that are down are neither asked nor counted: answers without them claim to be complete.";
    NewNodeAssumesAlone, "new-node-assumes-alone", 60, "A node that has just started and has no members yet takes itself for the whole cluster.";
    PartialReportedComplete, "partial-reported-complete", 40, "Every answer claims to be complete.";
    TruncatedReportedComplete, "truncated-reported-complete", 80, "A truncated reply of a node counts as its whole reply.";
    TailWithoutPeers, "tail-without-peers", 10, "A tail does not receive what other nodes accept.";
    RepairDisabled, "repair-disabled", 40, "Repair never re-replicates.";
    HeldReportedFalsely, "held-reported-falsely", 40, "A store reports that it holds every id that it is asked about: under-replicated records are not found.";
    TornFileRemoved, "torn-file-removed", 300, "Recovery deletes a queue file with a torn tail, whole frames included.";
    RepairPassSkipped, "repair-pass-skipped", 300, "A lost store is declared re-replicated as soon as it counts as lost, before a pass has compared anything.";
    KeysForgotten, "keys-forgotten", 300, "Idempotency keys are forgotten at a restart: a retry of a keyed batch is stored as new records.";
    KeyWithoutBody, "key-without-body", 40, "The ids of a batch derive from its key alone: another body with the same key replaces the first.";
    KeyReuseAccepted, "key-reuse-accepted", 40, "A node that remembers a key accepts another body with it.";
    DamagedRemoved, "damaged-removed", 300, "A damaged queue file is deleted instead of quarantined: it is not reported after a restart.";
    ColumnRowWrong, "column-row-wrong", 10, "Two neighbouring rows of a columnar block are exchanged: a row is built from the wrong values.";
    ColumnMatchMissed, "column-match-missed", 10, "A filtered search over columnar blocks misses one matching row.";
    ColumnBlockDropped, "column-block-dropped", 10, "A search skips a columnar block: a filter rules out what it should not.";
    NewestFirstOffByOne, "newest-first-off-by-one", 10, "A newest-first search with a limit begins at the second record.";
    ErasureForgotten, "erasure-forgotten", 40, "A node acknowledges an erasure that another node sends, and does not keep it.";
    SealNotChecked, "seal-not-checked", 100, "Recovery does not check the seal of a closed queue file: a truncated file counts as whole.";
}

impl InjectedBug {
    /// Whether repair undoes the effect. Such a bug runs without repair, and without faults that need repair.
    pub(crate) fn is_repaired(self) -> bool {
        matches!(self, Self::PutDiscarded | Self::PutAcknowledgedEarly | Self::PutAcknowledgedUnread)
    }
}

impl fmt::Display for InjectedBug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
