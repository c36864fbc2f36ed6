//! Files that go bad: queue segments that were closed, the lists of nodes; and descriptors that run out.
//!
//! What a damaged queue segment held and no store keeps may be lost from then on, and a complete answer has it nevertheless:
//! where it is not found, the answer has to say that it is partial ([`Ledger::was_spoilt`]). Of a segment that is still
//! written a power cut may take the end, which no reader can tell from damage there, so only closed ones are damaged.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bucksaw_env::backed_up_file::{BackedUpFile, BackupState, backup_path};
use bucksaw_env::sim;
use bucksaw_record::Id;

use crate::ledger::RecordLedger;
use crate::machine::DIR;
use crate::records::queue_file_ids;
use crate::rng::SeededRng;
use crate::sim_cluster::SimCluster;

/// How often something goes bad when something else goes wrong, of a hundred times.
const DAMAGE_PERCENT: usize = 40;

/// The most that is spoilt at once, in bytes: more than a page, so that it cannot always be rebuilt.
const DAMAGED_BYTES_MAX: usize = 6_000;

/// How long descriptors are short at most, and how many more than are open there may be.
const DESCRIPTOR_LIMIT_TIME_MAX: Duration = Duration::from_secs(5);
const SPARE_DESCRIPTORS_MAX: usize = 3;

/// More than a list of nodes has.
pub(crate) const LIST_BYTES_MAX: u64 = 1 << 20;

/// Damages files.
pub(crate) struct FileDamager {
    rng: SeededRng,
    /// Machines whose descriptors are short, and until when.
    limited: Vec<(Duration, usize)>,
    /// Files that were damaged.
    pub(crate) damaged_files: usize,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InjectedDamage {
    /// A file of this machine is damaged. It may be met at a start only.
    Damaged(usize),
    /// This machine can hardly open a file.
    DescriptorsLimited(usize),
}

impl FileDamager {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: SeededRng::new(seed), limited: Vec::new(), damaged_files: 0 }
    }

    /// Whether the machine is to be killed, so that it meets the damage at its start.
    pub(crate) fn should_kill(&self) -> bool {
        self.rng.percent(60)
    }

    /// Damages something, mostly.
    pub(crate) fn inject(
        &mut self,
        fleet: &SimCluster,
        ledger: &RecordLedger,
        now: Duration,
    ) -> Option<InjectedDamage> {
        if !self.rng.percent(DAMAGE_PERCENT) {
            return None;
        }
        match self.rng.below(10) {
            0..7 => self.damage_queue_segment(fleet, ledger),
            7 | 8 => self.damage_member_file(fleet),
            _ => self.limit_descriptors(fleet, now),
        }
    }

    /// Ends what is over; everything with `all`.
    pub(crate) fn end_expired(&mut self, fleet: &SimCluster, now: Duration, all: bool) {
        self.limited.retain(|(until, at)| {
            let goes_on = *until > now && !all;
            if let Some(machine) = fleet.machines.get(*at).filter(|_| !goes_on) {
                machine.host.fs().limit_handles(None);
            }
            goes_on
        });
    }

    fn damage_queue_segment(&mut self, fleet: &SimCluster, ledger: &RecordLedger) -> Option<InjectedDamage> {
        let queue = Path::new(DIR).join("queue");
        let is_closed = |path: &PathBuf| {
            let state = path.extension().and_then(|state| state.to_str());
            path.starts_with(&queue) && matches!(state, Some("pending" | "committed"))
        };
        let machines = fleet.machines.iter().enumerate().filter(|(_, machine)| !machine.destroyed);
        let files = machines.flat_map(|(at, machine)| {
            machine.host.fs().paths().into_iter().filter(is_closed).map(move |path| (at, path))
        });
        let files: Vec<(usize, PathBuf)> = files.collect();
        let (at, path) = self.rng.choose(&files)?.clone();
        let disk = fleet.machines.get(at)?.host.fs();
        // Stores keep what was in a committed one.
        let waits = path.extension().is_some_and(|state| state == "pending");
        let held: BTreeSet<Id> =
            queue_file_ids(&disk, path.clone()).unwrap_or_default().into_iter().filter(|_| waits).collect();
        let kept = fleet.replicated_without(at);
        if !self.damage_file(&disk, &path) {
            return None;
        }
        tracing::debug!(machine = at, path = %path.display(), records = held.len(), "queue segment damaged");
        ledger.record_damage(at, held.difference(&kept).copied());
        ledger.forget_keys(at);
        fleet.clear_cache(at);
        Some(InjectedDamage::Damaged(at))
    }

    /// One of the two copies of a list of nodes, where both are sound.
    fn damage_member_file(&mut self, fleet: &SimCluster) -> Option<InjectedDamage> {
        let at = self.rng.below(fleet.machines.len());
        let disk = fleet.machines.get(at).filter(|machine| !machine.destroyed)?.host.fs();
        let list = Path::new(DIR).join("members.json");
        let both = BackedUpFile::read(&disk, &list, LIST_BYTES_MAX).ok()?;
        if !matches!(both.backup, BackupState::Valid(_)) || both.file.is_none() || both.damage().is_some() {
            return None;
        }
        let path = if self.rng.percent(70) { list } else { backup_path(&list) };
        tracing::debug!(machine = at, path = %path.display(), "member file damaged");
        self.damage_file(&disk, &path).then_some(InjectedDamage::Damaged(at))
    }

    fn limit_descriptors(&mut self, fleet: &SimCluster, now: Duration) -> Option<InjectedDamage> {
        let at = self.rng.below(fleet.machines.len());
        let machine = fleet.machines.get(at).filter(|machine| machine.node().is_some())?;
        let disk = machine.host.fs();
        disk.limit_handles(Some(disk.handles() + self.rng.below(SPARE_DESCRIPTORS_MAX)));
        self.limited.push((now + self.rng.duration(Duration::ZERO, DESCRIPTOR_LIMIT_TIME_MAX), at));
        Some(InjectedDamage::DescriptorsLimited(at))
    }

    /// Flips a bit, cuts the file, or spoils or loses a part of it; false where that changes nothing.
    fn damage_file(&mut self, disk: &sim::Fs, path: &Path) -> bool {
        let size = disk.live_bytes(path).unwrap_or_default().len();
        let at = self.rng.below(size);
        let done = size > 0
            && match self.rng.below(4) {
                0 => disk.flip_bit(path, (at * 8 + self.rng.below(8)) as u64),
                1 => disk.truncate_file(path, at as u64),
                kind => {
                    let part = at as u64..size.min(at + self.rng.between(1, DAMAGED_BYTES_MAX)) as u64;
                    if kind == 2 { disk.corrupt(path, part) } else { disk.zero_range(path, part) }
                }
            };
        self.damaged_files += usize::from(done);
        done
    }
}
