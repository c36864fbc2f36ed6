//! Runs repair: takes the next range, scans it, compares it with other stores, and replicates.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::{lock, log_limited};
use bucksaw_record::{Id, Millis};
use futures_util::future::join_all;
use tracing::{debug, info};

use super::config::MEMBERS_KNOWN_AFTER;
use super::held_ids::request_held_ids;
use super::id_set::{IDS_BYTES_MAX, IdSet};
use super::local_scan::{LocalIds, LocalScan};
use super::range_queue::PendingRange;
use super::responsibility::{UnderReplicatedIds, under_replicated};
use super::state::{RangeOutcome, RepairState, RepairTask};
use super::status::{RepairBlocker, RepairStatus};
use super::time_range::{TimeRange, newest_range};
use crate::error::StoreError;
use crate::peers::{Peer, PeerStore};
use crate::replicate::Replicator;
use crate::replication::Replication;
use crate::segment_store::SegmentStore;
use crate::store::Store;
use crate::store_context::StoreContext;

/// Pause when nothing is due.
const IDLE_DELAY: Duration = Duration::from_secs(1);

/// Maximum scans of one range in a row, if the retention bounds of other stores change.
const SCAN_ATTEMPTS_MAX: usize = 4;

/// The repair task of one store.
#[derive(Debug)]
pub struct Repair {
    pub(super) context: StoreContext,
    pub(super) store: Arc<SegmentStore>,
    replicator: Replicator,
    /// Locked briefly, and with no other lock.
    pub(super) state: Mutex<RepairState>,
    /// The uptime of the next requests for proofs.
    pub(super) proofs_due_at: Mutex<Duration>,
}

/// The result of comparing a range.
struct RangeComparison {
    range: TimeRange,
    local: LocalIds,
    /// Under-replicated records that this store is responsible for.
    under_replicated: Vec<UnderReplicatedIds>,
}

/// A range that could not be compared.
struct DeferredRange {
    range: TimeRange,
    blocked_by: Option<RepairBlocker>,
}

impl Repair {
    /// Repair for a store. One task calls [`Self::run_step`] in a loop.
    pub fn new(replication: Replication) -> Self {
        let Replication { context, store } = replication;
        let (now, chance) = (store.env.clock.uptime(), store.env.entropy.next_u64());
        let state = RepairState::new(store.config.repair, store.config.replication_factor, now, chance);
        let (state, proofs_due_at) = (Mutex::new(state), Mutex::new(now + MEMBERS_KNOWN_AFTER));
        Self { replicator: Replicator::new(context.clone()), state, proofs_due_at, context, store }
    }

    /// Hints that records of `from..=to` may be under-replicated. They are compared before the pass continues.
    pub fn hint(&self, from: Millis, to: Millis) {
        lock(&self.state).add_hint(TimeRange { from, to: Millis(to.0.min(Millis::MAX.0) + 1) });
    }

    /// The current status.
    pub fn status(&self) -> RepairStatus {
        let store = &self.store;
        let left = lock(&self.state).remaining_ranges();
        let left_bytes = store.bytes_in(&left);
        let status = lock(&self.state).status(store.env.clock.uptime(), left_bytes);
        RepairStatus {
            under_replicated_bytes: store.bytes_of(status.under_replicated_records),
            restored_records: store.metrics.repair_restored_records.get(),
            restored_bytes: store.metrics.repair_restored_bytes.get(),
            ..status
        }
    }

    /// When the last completed pass began, as in [`RepairStatus::last_pass_started_at`].
    pub fn last_pass_started_at(&self) -> Option<Millis> {
        lock(&self.state).last_pass_started_at
    }

    /// The fingerprints of lost stores that are re-replicated as far as this store's records go: a pass that began after
    /// their loss has completed without under-replicated records. In the order of their ids.
    pub fn re_replicated_fingerprints(&self) -> Vec<u64> {
        lock(&self.state).monitor.re_replicated_fingerprints()
    }

    /// Samples the rate and publishes the status as metrics.
    fn update_progress(&self) -> RepairStatus {
        let store = &self.store;
        let status = self.status();
        lock(&self.state).sample_rate(store.env.clock.uptime(), status.remaining_bytes);
        store.metrics.set_repair_status(&status);
        status
    }

    /// Repairs the next range and pauses to keep within the rate limit; only pauses if nothing is due. A dropped step is repeated.
    pub async fn run_step(&self) {
        let (store, StoreContext { tasks, peers, .. }) = (&self.store, &self.context);
        if store.config.replication_factor <= 1 {
            // Without replicas nothing can be restored.
            return tasks.sleep(IDLE_DELAY * 60).await;
        }
        self.update_proofs().await;
        let (now, wall) = (store.env.clock.uptime(), store.now());
        let task = lock(&self.state).next_task(peers.peer_stores(), now, wall);
        let Some(task) = task else {
            self.update_progress();
            return tasks.sleep(IDLE_DELAY).await;
        };
        let is_hint = task.is_hint;
        let metrics = &store.metrics;
        let cost = || metrics.repair_read_bytes.get() + metrics.repair_restored_bytes.get();
        let before = cost();
        let done = self.repair_range(task).await;
        let (now, chance) = (store.env.clock.uptime(), store.env.entropy.next_u64());
        let ended = lock(&self.state).complete_task(is_hint, done, now, chance);
        let status = self.update_progress();
        if ended {
            metrics.repair_passes.inc();
            info!(
                missing = status.under_replicated_records,
                lost = status.lost_stores.len(),
                "all records were compared with other stores"
            );
        }
        let bytes_per_second = store.config.repair.bytes_per_second.max(1);
        tasks.sleep(Duration::from_secs_f64((cost() - before) as f64 / bytes_per_second as f64)).await;
    }

    /// Repairs the newest part of a pending range.
    async fn repair_range(&self, task: RepairTask) -> RangeOutcome {
        let RepairTask { pending, live, verify, .. } = task;
        let Some(range) = newest_range(&self.store.extents(), pending.range) else {
            return RangeOutcome::default();
        };
        let compared = self.compare(range, &pending, &live, verify).await;
        let (range, mut done) = match compared {
            Ok(compared) => {
                let (range, is_unread) = (compared.range, compared.local.is_incomplete);
                let mut done = self.restore_replicas(compared, &live).await;
                // A pass is complete only if every block was read or is known to be damaged.
                let again = PendingRange { range, blocked_by: Some(RepairBlocker::Unreadable), ..pending.clone() };
                done.retry.extend(is_unread.then_some(again));
                (range, done)
            }
            Err(DeferredRange { range, blocked_by }) => {
                self.store.metrics.repair_deferred.inc();
                (
                    range,
                    RangeOutcome {
                        retry: vec![PendingRange { range, blocked_by, ..pending.clone() }],
                        ..RangeOutcome::default()
                    },
                )
            }
        };
        let rest = TimeRange { from: pending.range.from, to: range.from };
        done.remaining = (!rest.is_empty()).then_some(PendingRange { range: rest, blocked_by: None, ..pending });
        done
    }

    /// Scans a range and requests the same ids from all live stores. The range is halved if it has too many ids.
    async fn compare(
        &self,
        mut range: TimeRange,
        pending: &PendingRange,
        live: &[PeerStore],
        verify: bool,
    ) -> Result<RangeComparison, DeferredRange> {
        let store = &self.store;
        let mut scans = 0;
        loop {
            scans += 1;
            let retention = lock(&self.state).common_retention(store.retention_bounds(), live);
            let bounds =
                LocalScan { range, now: store.now(), fresh_age_max: store.config.repair.fresh_age_max, retention };
            let found = self.scan_local(bounds, pending.only_ids.clone(), verify && scans == 1).await;
            let found = found.ok_or(DeferredRange { range, blocked_by: None })?;
            let mut own = found.ids.clone();
            own.union_with(&found.fresh);
            let asked = own.clone().encode();
            if asked.len() > IDS_BYTES_MAX {
                let Some(half) = range.newer_half() else {
                    log_limited!(store.log_limits, warn, at = %range.from, "too many records in one millisecond to compare with other stores");
                    return Err(DeferredRange { range, blocked_by: None });
                };
                range = half;
                continue;
            }
            store.metrics.repair_ranges.inc();
            let others = if own.is_empty() { Vec::new() } else { self.request_all(range, &asked, live).await? };
            if lock(&self.state).common_retention(store.retention_bounds(), live) != retention
                && scans < SCAN_ATTEMPTS_MAX
            {
                // The peer's retention is shorter than this node assumed. A record that it has removed is not
                // under-replicated.
                continue;
            }
            let under_replicated = under_replicated(
                self.context.node,
                &own,
                &others,
                store.config.replication_factor,
                pending.is_claimed(),
            );
            return Ok(RangeComparison { range, local: found, under_replicated });
        }
    }

    async fn scan_local(&self, bounds: LocalScan, only: Option<Arc<IdSet>>, verify: bool) -> Option<LocalIds> {
        let store = Arc::clone(&self.store);
        let found = self.context.run_blocking_low_priority(move || {
            let is_backlogged = || store.is_backlogged();
            let throttle = store.repair_throttle.begin(Some(&is_backlogged));
            store.scan_local_ids(&bounds, verify, &throttle)
        });
        let mut found = found.await?;
        self.store.metrics.repair_read_bytes.inc_by(found.bytes);
        if let Some(only) = only {
            (found.ids, found.fresh) = (found.ids.intersection(&only), found.fresh.intersection(&only));
        }
        Some(found)
    }

    /// Which of `asked` each live store holds.
    async fn request_all(
        &self,
        range: TimeRange,
        asked: &[u8],
        live: &[PeerStore],
    ) -> Result<Vec<(Id, IdSet)>, DeferredRange> {
        let answers =
            join_all(live.iter().map(|peer_store| request_held_ids(&self.context, peer_store.peer, range, asked)))
                .await;
        let mut others = Vec::new();
        for (peer_store, answer) in live.iter().zip(answers) {
            let node = peer_store.peer.node;
            match answer {
                Ok((held, retention)) => {
                    lock(&self.state).set_peer_retention(node, retention);
                    others.push((node, held));
                }
                Err(error) => {
                    debug!(store = %node, %error, "another store did not answer: the time range is deferred");
                    return Err(DeferredRange { range, blocked_by: Some(RepairBlocker::Unreachable(node)) });
                }
            }
        }
        Ok(others)
    }

    /// Replicates the under-replicated records.
    async fn restore_replicas(&self, compared: RangeComparison, live: &[PeerStore]) -> RangeOutcome {
        let RangeComparison { range, local: found, under_replicated } = compared;
        let (copies, config) = (self.store.config.replication_factor, self.store.config.repair);
        let mut done = RangeOutcome::default();
        let mut later = |ids: IdSet, ready: Duration, why: Option<RepairBlocker>| {
            if !ids.is_empty() {
                done.retry.push(PendingRange {
                    range,
                    only_ids: Some(Arc::new(ids)),
                    ready_at: ready,
                    is_under_replicated: why.is_some(),
                    blocked_by: why,
                });
            }
        };
        let now = self.store.env.clock.uptime();
        for UnderReplicatedIds { holders, ids } in under_replicated {
            later(ids.intersection(&found.fresh), now + config.fresh_age_max, None);
            let ids = ids.intersection(&found.ids);
            if ids.is_empty() {
                continue;
            }
            let accepts =
                |peer_store: &&PeerStore| peer_store.accepts_replicas && !holders.contains(&peer_store.peer.node);
            let targets: Vec<Peer> = live.iter().filter(accepts).map(|peer_store| peer_store.peer).collect();
            let possible = (copies - holders.len()).min(targets.len());
            let (count, ids) = (ids.len(), Arc::new(ids));
            if let Err(why) = self.replicate(range, &ids, targets, possible).await {
                self.store.metrics.repair_failed.inc();
                later(Arc::unwrap_or_clone(ids), now + config.fresh_age_max, Some(why));
            } else if holders.len() + possible < copies {
                done.under_replicated_records += count;
            }
        }
        done
    }

    /// Sends records to `copies` of the targets.
    async fn replicate(
        &self,
        range: TimeRange,
        ids: &Arc<IdSet>,
        targets: Vec<Peer>,
        copies: usize,
    ) -> Result<(), RepairBlocker> {
        if copies == 0 {
            return Ok(());
        }
        let (store, wanted) = (Arc::clone(&self.store), Arc::clone(ids));
        let extract = self.context.run_blocking_low_priority(move || store.extract(range, &wanted)).await;
        let extract = match extract {
            Some(Ok(Some(extract))) => extract,
            // Retention has removed them meanwhile.
            Some(Ok(None)) => return Ok(()),
            Some(Err(StoreError::Stopped)) | None => return Err(RepairBlocker::Unreadable),
            Some(Err(error)) => {
                log_limited!(self.store.log_limits, warn, %error, "cannot read under-replicated records: will retry");
                return Err(RepairBlocker::Unreadable);
            }
        };
        self.store.metrics.repair_read_bytes.inc_by(extract.stored.file_bytes());
        let wanted_bytes = extract.stored.file_bytes() + self.store.config.free_bytes_min;
        let is_full = targets.iter().filter(|target| target.free_bytes >= wanted_bytes).count() < copies;
        let sent = self.replicator.replicate(&extract.stored, targets, copies).await;
        let metrics = &self.store.metrics;
        metrics.repair_restored_records.inc_by(extract.stored.reach().records * sent as u64);
        metrics.repair_restored_bytes.inc_by(extract.stored.file_bytes() * sent as u64);
        info!(records = extract.stored.reach().records, sent, wanted = copies, from = %range.from, to = %range.to, "restored replicas");
        match sent >= copies {
            true => Ok(()),
            false if is_full => Err(RepairBlocker::NoSpace),
            false => Err(RepairBlocker::CopyFailed),
        }
    }
}
