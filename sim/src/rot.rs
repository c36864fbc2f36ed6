//! Files that go bad: queue segments that were closed, the lists of nodes; and descriptors that run out.
//!
//! What a damaged queue segment held and no store keeps may be lost from then on, and a complete answer has it nevertheless:
//! where it is not found, the answer has to say that it is partial ([`Ledger::was_spoilt`]). Of a segment that is still
//! written a power cut may take the end, which no reader can tell from damage there, so only closed ones are damaged.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bucksaw_doors::sim;
use bucksaw_doors::twice::{Backup, Twice, backup_of};
use bucksaw_record::Id;

use crate::chance::Chance;
use crate::fleet::Fleet;
use crate::ledger::Ledger;
use crate::machine::DIR;
use crate::records::ids_of_file;

/// How often something goes bad when something else goes wrong, of a hundred times.
const OFTEN: usize = 40;

/// The most that is spoilt at once, in bytes: more than a page, so that it cannot always be rebuilt.
const SPOILT_BYTES: usize = 6_000;

/// How long descriptors are short at most, and how many more than are open there may be.
const SHORT: Duration = Duration::from_secs(5);
const MORE_MAX: usize = 3;

/// More than a list of nodes has.
pub(crate) const LIST_BYTES_MAX: u64 = 1 << 20;

/// Damages files.
pub(crate) struct Rot {
    chance: Chance,
    /// Machines whose descriptors are short, and until when.
    short: Vec<(Duration, usize)>,
    /// Files that were damaged.
    pub(crate) files: usize,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Struck {
    /// A file of this machine is damaged. It may be met at a start only.
    Damaged(usize),
    /// This machine can hardly open a file.
    Short(usize),
}

impl Rot {
    pub(crate) fn new(seed: u64) -> Self {
        Self { chance: Chance::new(seed), short: Vec::new(), files: 0 }
    }

    /// Whether the machine is to be killed, so that it meets the damage at its start.
    pub(crate) fn kills(&self) -> bool {
        self.chance.percent(60)
    }

    /// Damages something, mostly.
    pub(crate) fn strike(&mut self, fleet: &Fleet, ledger: &Ledger, now: Duration) -> Option<Struck> {
        if !self.chance.percent(OFTEN) {
            return None;
        }
        match self.chance.below(10) {
            0..7 => self.spoil_queue(fleet, ledger),
            7 | 8 => self.spoil_list(fleet),
            _ => self.shorten(fleet, now),
        }
    }

    /// Ends what is over; everything with `all`.
    pub(crate) fn pass(&mut self, fleet: &Fleet, now: Duration, all: bool) {
        self.short.retain(|(until, at)| {
            let goes_on = *until > now && !all;
            if let Some(machine) = fleet.machines.get(*at).filter(|_| !goes_on) {
                machine.host.fs().limit_handles(None);
            }
            goes_on
        });
    }

    fn spoil_queue(&mut self, fleet: &Fleet, ledger: &Ledger) -> Option<Struck> {
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
        let (at, path) = self.chance.one(&files)?.clone();
        let disk = fleet.machines.get(at)?.host.fs();
        // Stores keep what was in a committed one.
        let waits = path.extension().is_some_and(|state| state == "pending");
        let held: BTreeSet<Id> =
            ids_of_file(&disk, path.clone()).unwrap_or_default().into_iter().filter(|_| waits).collect();
        let kept = fleet.kept_without(at);
        if !self.spoil(&disk, &path) {
            return None;
        }
        tracing::debug!(machine = at, path = %path.display(), records = held.len(), "a queue segment goes bad");
        ledger.was_spoilt(at, held.difference(&kept).copied());
        ledger.forgets_keys(at);
        fleet.was_changed(at);
        Some(Struck::Damaged(at))
    }

    /// One of the two copies of a list of nodes, where both are sound.
    fn spoil_list(&mut self, fleet: &Fleet) -> Option<Struck> {
        let at = self.chance.below(fleet.machines.len());
        let disk = fleet.machines.get(at).filter(|machine| !machine.destroyed)?.host.fs();
        let list = Path::new(DIR).join("members.json");
        let both = Twice::read(&disk, &list, LIST_BYTES_MAX).ok()?;
        if !matches!(both.backup, Backup::Sound(_)) || both.file.is_none() || both.damage().is_some() {
            return None;
        }
        let path = if self.chance.percent(70) { list } else { backup_of(&list) };
        tracing::debug!(machine = at, path = %path.display(), "a list of nodes goes bad");
        self.spoil(&disk, &path).then_some(Struck::Damaged(at))
    }

    fn shorten(&mut self, fleet: &Fleet, now: Duration) -> Option<Struck> {
        let at = self.chance.below(fleet.machines.len());
        let machine = fleet.machines.get(at).filter(|machine| machine.node().is_some())?;
        let disk = machine.host.fs();
        disk.limit_handles(Some(disk.handles() + self.chance.below(MORE_MAX)));
        self.short.push((now + self.chance.time(Duration::ZERO, SHORT), at));
        Some(Struck::Short(at))
    }

    /// Flips a bit, cuts the file, or spoils or loses a part of it; false where that changes nothing.
    fn spoil(&mut self, disk: &sim::Fs, path: &Path) -> bool {
        let size = disk.live_bytes(path).unwrap_or_default().len();
        let at = self.chance.below(size);
        let done = size > 0
            && match self.chance.below(4) {
                0 => disk.flip_bit(path, (at * 8 + self.chance.below(8)) as u64),
                1 => disk.cut_file(path, at as u64),
                kind => {
                    let part = at as u64..size.min(at + self.chance.within(1, SPOILT_BYTES)) as u64;
                    if kind == 2 { disk.spoil(path, part) } else { disk.zero(path, part) }
                }
            };
        self.files += usize::from(done);
        done
    }
}
