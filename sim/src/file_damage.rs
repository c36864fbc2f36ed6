//! Damage to closed queue segments and member files, and shortages of descriptors.
//!
//! Records of a damaged queue segment that no store has may be missing afterwards, but only from partial answers
//! ([`RecordLedger::record_damage`]). Segments that are still written are not damaged: a power cut may truncate them, which no
//! reader can distinguish from damage.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bucksaw_env::backed_up_file::{BackedUpFile, BackupState, backup_path};
use bucksaw_env::sim;
use bucksaw_record::Id;

use crate::ledger::RecordLedger;
use crate::records::queue_file_ids;
use crate::rng::SeededRng;
use crate::settings::{DIR, MEMBER_FILE_BYTES_MAX};
use crate::sim_cluster::SimCluster;

/// The percentage of faults that come with damage.
const DAMAGE_PERCENT: usize = 40;

/// Maximum bytes damaged at once: more than a page, so that parity cannot always rebuild them.
const DAMAGED_BYTES_MAX: usize = 6_000;

/// Maximum time of a descriptor shortage, and maximum free descriptors during it.
const DESCRIPTOR_LIMIT_TIME_MAX: Duration = Duration::from_secs(5);
const SPARE_DESCRIPTORS_MAX: usize = 3;

pub(crate) struct FileDamager {
    rng: SeededRng,
    /// Machines with few descriptors, and until when.
    limited: Vec<(Duration, usize)>,
    /// The number of damaged files.
    pub(crate) damaged_files: usize,
}

/// What was injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InjectedDamage {
    /// A file of this machine is damaged. Perhaps only the next start reads it.
    Damaged(usize),
    /// This machine has hardly any descriptors.
    DescriptorsLimited(usize),
}

impl FileDamager {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: SeededRng::new(seed), limited: Vec::new(), damaged_files: 0 }
    }

    /// Whether to kill the machine, so that its next start reads the damaged file.
    pub(crate) fn should_kill(&self) -> bool {
        self.rng.percent(60)
    }

    /// Injects damage, or nothing.
    pub(crate) fn inject(
        &mut self,
        cluster: &SimCluster,
        ledger: &RecordLedger,
        now: Duration,
    ) -> Option<InjectedDamage> {
        if !self.rng.percent(DAMAGE_PERCENT) {
            return None;
        }
        match self.rng.below(10) {
            0..7 => self.damage_queue_segment(cluster, ledger),
            7 | 8 => self.damage_member_file(cluster),
            _ => self.limit_descriptors(cluster, now),
        }
    }

    /// Ends expired shortages, or all.
    pub(crate) fn end_expired(&mut self, cluster: &SimCluster, now: Duration, all: bool) {
        self.limited.retain(|(until, at)| {
            let continues = *until > now && !all;
            if let Some(machine) = cluster.machines.get(*at).filter(|_| !continues) {
                machine.host.fs().limit_handles(None);
            }
            continues
        });
    }

    fn damage_queue_segment(&mut self, cluster: &SimCluster, ledger: &RecordLedger) -> Option<InjectedDamage> {
        let queue = Path::new(DIR).join("queue");
        let is_closed = |path: &PathBuf| {
            let state = path.extension().and_then(|state| state.to_str());
            path.starts_with(&queue) && matches!(state, Some("pending" | "committed"))
        };
        let machines = cluster.machines.iter().enumerate().filter(|(_, machine)| !machine.destroyed);
        let files = machines.flat_map(|(at, machine)| {
            machine.host.fs().paths().into_iter().filter(is_closed).map(move |path| (at, path))
        });
        let files: Vec<(usize, PathBuf)> = files.collect();
        let (at, path) = self.rng.choose(&files)?.clone();
        let disk = cluster.machines.get(at)?.host.fs();
        // Stores have the records of committed segments.
        let is_pending = path.extension().is_some_and(|state| state == "pending");
        let held: BTreeSet<Id> =
            queue_file_ids(&disk, path.clone()).unwrap_or_default().into_iter().filter(|_| is_pending).collect();
        let kept = cluster.replicated_without(at);
        if !self.damage_file(&disk, &path) {
            return None;
        }
        tracing::debug!(machine = at, path = %path.display(), records = held.len(), "queue segment damaged");
        ledger.record_damage(at, held.difference(&kept).copied());
        ledger.forget_keys(at);
        cluster.clear_cache(at);
        Some(InjectedDamage::Damaged(at))
    }

    /// Damages the member file or its backup if both are intact.
    fn damage_member_file(&mut self, cluster: &SimCluster) -> Option<InjectedDamage> {
        let at = self.rng.below(cluster.machines.len());
        let disk = cluster.machines.get(at).filter(|machine| !machine.destroyed)?.host.fs();
        let member_file = Path::new(DIR).join("members.json");
        let both = BackedUpFile::read(&disk, &member_file, MEMBER_FILE_BYTES_MAX).ok()?;
        if !matches!(both.backup, BackupState::Valid(_)) || both.file.is_none() || both.damage().is_some() {
            return None;
        }
        let path = if self.rng.percent(70) { member_file } else { backup_path(&member_file) };
        tracing::debug!(machine = at, path = %path.display(), "member file damaged");
        self.damage_file(&disk, &path).then_some(InjectedDamage::Damaged(at))
    }

    fn limit_descriptors(&mut self, cluster: &SimCluster, now: Duration) -> Option<InjectedDamage> {
        let at = self.rng.below(cluster.machines.len());
        let machine = cluster.machines.get(at).filter(|machine| machine.node().is_some())?;
        let disk = machine.host.fs();
        disk.limit_handles(Some(disk.handles() + self.rng.below(SPARE_DESCRIPTORS_MAX)));
        self.limited.push((now + self.rng.duration(Duration::ZERO, DESCRIPTOR_LIMIT_TIME_MAX), at));
        Some(InjectedDamage::DescriptorsLimited(at))
    }

    /// Flips a bit, truncates the file, or overwrites or zeroes a part; false if that changes nothing.
    fn damage_file(&mut self, disk: &sim::Fs, path: &Path) -> bool {
        let size = disk.live_bytes(path).unwrap_or_default().len();
        let at = self.rng.below(size);
        let is_damaged = size > 0
            && match self.rng.below(4) {
                0 => disk.flip_bit(path, (at * 8 + self.rng.below(8)) as u64),
                1 => disk.truncate_file(path, at as u64),
                kind => {
                    let part = at as u64..size.min(at + self.rng.between(1, DAMAGED_BYTES_MAX)) as u64;
                    if kind == 2 { disk.corrupt(path, part) } else { disk.zero_range(path, part) }
                }
            };
        self.damaged_files += usize::from(is_damaged);
        is_damaged
    }
}
