//! Injected bugs: things that are wrong on purpose, so that the checks can be seen to find them.
//!
//! Nothing of the program itself is changed. Its doors are wrapped, its calls answered by others, its settings false, its
//! clients bad, its machines odd: each as if a line of code had been wrong.

pub(crate) mod calls;
pub(crate) mod files;
pub(crate) mod peers;

use std::fmt;

macro_rules! injected_bugs {
    ($($name:ident, $words:literal, $seeds_max:literal, $description:literal;)*) => {
        /// Something that is wrong on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum InjectedBug {
            $(#[doc = $description] $name,)*
        }

        impl InjectedBug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $words),* }
            }

            /// What it does, and what that stands for.
            #[must_use]
            pub const fn description(self) -> &'static str {
                match self { $(Self::$name => $description),* }
            }

            /// So many seeds find it, counted from 0.
            #[must_use]
            pub const fn seeds_max(self) -> u64 {
                match self { $(Self::$name => $seeds_max),* }
            }
        }
    };
}

injected_bugs! {
    FileSyncSkipped, "file-sync-skipped", 40, "A file's sync does nothing: a forgotten fsync.";
    DirSyncSkipped, "dir-sync-skipped", 40, "A directory's sync does nothing: a file is durable, its name is not.";
    SyncFailureHidden, "sync-failure-hidden", 60, "A sync that fails says that it did not: an error that is not looked at.";
    StoreSyncSkipped, "store-sync-skipped", 40, "Only files of the store are not synced: queues let go of what no store has.";
    WritesBuffered, "writes-buffered", 40, "What was written is in the memory of the process when it is killed: a buffer before the file.";
    OldDisk, "old-disk", 60, "A machine comes back with the disk that it had before: a snapshot was restored.";
    DamageForgotten, "damage-forgotten", 40, "Files that were set aside as damaged are not found at the next start: answers over them pass for complete.";
    PutDiscarded, "put-discarded", 40, "A copy is acknowledged and thrown away.";
    PutAcknowledgedEarly, "put-acknowledged-early", 80, "A copy is acknowledged when it has come, before it is durable.";
    PutAcknowledgedUnread, "put-acknowledged-unread", 40, "A copy is acknowledged when its first bytes have come.";
    FetchCommits, "fetch-commits", 40, "The queue lets go of what a store takes, before that has stored it.";
    AckCommitsReturned, "ack-commits-returned", 60, "The queue lets go of what a store gives back.";
    AckForgotten, "ack-forgotten", 40, "A commit is acknowledged and forgotten: the queue is never empty.";
    LeaseNeverExpires, "lease-never-expires", 60, "A reservation does not end: what a store took and was not heard of again stays where it is.";
    WaitNeverDue, "wait-never-due", 40, "A queue tells other nodes that nothing is due: no store comes for it.";
    AppendAcknowledgedEarly, "append-acknowledged-early", 40, "Records are acknowledged before they are appended.";
    LastRecordDropped, "last-record-dropped", 10, "The last record of a batch is acknowledged and not appended: an error by one.";
    DurableAsFast, "durable-as-fast", 40, "`durable` is acknowledged as `fast` is.";
    BulkAsDurable, "bulk-as-durable", 40, "`bulk` is acknowledged before it is replicated.";
    RefusedButStored, "refused-but-stored", 10, "Records are refused and kept.";
    FailureReportedAsSuccess, "failure-reported-as-success", 60, "Whatever goes wrong is acknowledged.";
    FailureReportedAsRefusal, "failure-reported-as-refusal", 100, "Nobody knows whether the records are kept, and the client is told that they are not.";
    OneCopy, "one-copy", 10, "Stores are set to fewer copies than are promised.";
    NoGrace, "no-grace", 60, "Committed segments go at once: an answer that asked the store first misses what moved meanwhile.";
    EarlyRetention, "early-retention", 10, "Records go far too early.";
    IdReused, "id-reused", 10, "A client gives one id to two records.";
    RetryWithNewIds, "retry-with-new-ids", 40, "A client numbers its records anew when it sends them again.";
    NotMerged, "not-merged", 10, "What nodes say is added up: equal ids are neither dropped from answers nor counted once.";
    DownNodesIgnored, "down-nodes-ignored", 40, "Nodes that are down are not asked and not counted: answers without them pass for complete.";
    NewNodeAssumesAlone, "new-node-assumes-alone", 60, "A node that has just begun and has heard of nobody takes itself for all there is.";
    PartialReportedComplete, "partial-reported-complete", 40, "An answer calls itself complete whoever is missing.";
    TruncatedReportedComplete, "truncated-reported-complete", 40, "What a node had sent when its answer was cut off passes for all it has.";
    TailWithoutPeers, "tail-without-peers", 10, "A follower is not shown what other nodes accept.";
    RepairDisabled, "repair-disabled", 40, "Lost copies are not restored.";
    HeldReportedFalsely, "held-reported-falsely", 40, "A store tells that it holds whatever it is asked about: what is lost is not missed.";
    TornFileRemoved, "torn-file-removed", 300, "Recovery removes a queue file with a torn tail, whole frames and all.";
    RepairPassSkipped, "repair-pass-skipped", 300, "A lost store is declared re-replicated when it counts as lost, before a pass has compared anything.";
    KeysForgotten, "keys-forgotten", 300, "Idempotency keys are forgotten at a restart: a retry of a keyed batch is stored as new records.";
    KeyWithoutBody, "key-without-body", 40, "The ids of a batch come of its key alone, whatever its body: another body with the same key takes the place of the first.";
    KeyReuseAccepted, "key-reuse-accepted", 40, "A node that remembers a key takes another body with it, too.";
    DamagedRemoved, "damaged-removed", 300, "A damaged queue file is removed in place of being set aside: nothing tells of it after a restart.";
    SealNotChecked, "seal-not-checked", 300, "Recovery does not ask for the seal of a closed queue file: one that was cut passes for whole.";
}

impl InjectedBug {
    /// Whether repair mends what it does, as it mends what faults do. It is looked for where neither happens.
    pub(crate) fn is_repaired(self) -> bool {
        matches!(self, Self::PutDiscarded | Self::PutAcknowledgedEarly | Self::PutAcknowledgedUnread)
    }
}

impl fmt::Display for InjectedBug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
