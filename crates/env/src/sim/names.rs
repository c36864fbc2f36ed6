//! The names of the files: live names, durable names, and the pending changes between them.
//!
//! A rename may touch two directories; the sync of either makes it durable. As in a file system with a journal, a change does not
//! become durable before an earlier one of the same path. Changes of different paths become durable in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;

use super::{Entropy, PowerCutLoss};

/// Identifies a file; never reused on one disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InodeNumber(pub(super) u64);

/// A full path, compared by bytes, which is many times as fast as by components.
type PathKey = OsString;

/// All names of a disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    live: BTreeMap<PathKey, InodeNumber>,
    durable: BTreeMap<PathKey, InodeNumber>,
    pending: Vec<NameChange>,
}

/// A created name, a removed name, or both at once (a rename).
#[derive(Clone, Debug)]
struct NameChange {
    inode: InodeNumber,
    removed: Option<PathKey>,
    added: Option<PathKey>,
}

impl Names {
    pub(super) fn get(&self, path: &Path) -> Option<InodeNumber> {
        self.live.get(path.as_os_str()).copied()
    }

    /// The live paths and their files.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Path, InodeNumber)> {
        self.live.iter().map(|(path, node)| (Path::new(path), *node))
    }

    pub(super) fn create(&mut self, path: &Path, node: InodeNumber) {
        self.apply_change(NameChange { inode: node, removed: None, added: Some(path.into()) });
    }

    pub(super) fn remove(&mut self, path: &Path, node: InodeNumber) {
        self.apply_change(NameChange { inode: node, removed: Some(path.into()), added: None });
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path, node: InodeNumber) {
        self.apply_change(NameChange { inode: node, removed: Some(from.into()), added: Some(to.into()) });
    }

    /// Makes the changes in a directory durable. Returns whether a file may have lost its last name.
    pub(super) fn sync_dir(&mut self, dir: &Path) -> bool {
        self.make_durable(|change| change.paths().any(|path| Path::new(path).parent() == Some(dir)))
    }

    /// The files that have a live name or may have one after a power cut.
    pub(super) fn reachable(&self) -> BTreeSet<InodeNumber> {
        let named = self.live.values().chain(self.durable.values()).copied();
        named.chain(self.pending.iter().map(|change| change.inode)).collect()
    }

    /// The names after a power cut.
    pub(super) fn after_power_cut(&self, how: PowerCutLoss, rng: &Entropy) -> Self {
        let mut after = Self { live: BTreeMap::new(), durable: self.durable.clone(), pending: self.pending.clone() };
        after.make_durable(|_| match how {
            PowerCutLoss::All => false,
            PowerCutLoss::None => true,
            PowerCutLoss::Torn => rng.one_in(2),
        });
        after.pending.clear();
        after.live.clone_from(&after.durable);
        after
    }

    fn apply_change(&mut self, change: NameChange) {
        change.apply(&mut self.live);
        self.pending.push(change);
    }

    /// Makes the wanted changes durable, and the earlier ones on which they depend. Returns whether one of them removed a name
    /// from a file.
    fn make_durable(&mut self, wanted: impl Fn(&NameChange) -> bool) -> bool {
        let mut touched: BTreeSet<PathKey> = BTreeSet::new();
        let (mut durable, mut pending) = (Vec::new(), Vec::new());
        // Backwards, so that one pass finds all dependencies.
        for change in self.pending.drain(..).rev() {
            if wanted(&change) || change.paths().any(|path| touched.contains(path)) {
                touched.extend(change.paths().cloned());
                durable.push(change);
            } else {
                pending.push(change);
            }
        }
        pending.reverse();
        self.pending = pending;
        let mut is_name_removed = false;
        for change in durable.iter().rev() {
            is_name_removed |= change.apply(&mut self.durable);
        }
        is_name_removed
    }
}

impl NameChange {
    fn paths(&self) -> impl Iterator<Item = &PathKey> {
        self.removed.iter().chain(&self.added)
    }

    /// Returns whether a file has lost a name.
    fn apply(&self, names: &mut BTreeMap<PathKey, InodeNumber>) -> bool {
        if let Some(path) = &self.removed {
            names.remove(path);
        }
        match &self.added {
            Some(path) => names.insert(path.clone(), self.inode).is_some(),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: InodeNumber = InodeNumber(1);
    const TWO: InodeNumber = InodeNumber(2);

    fn names_after(names: &Names, how: PowerCutLoss, seed: u64) -> Vec<(String, u64)> {
        let after = names.after_power_cut(how, &Entropy::seeded(seed));
        after.iter().map(|(path, node)| (path.display().to_string(), node.0)).collect()
    }

    /// The outcomes of many seeds.
    fn torn_outcomes(names: &Names) -> BTreeSet<Vec<(String, u64)>> {
        (0..500).map(|seed| names_after(names, PowerCutLoss::Torn, seed)).collect()
    }

    fn outcome(names: &[(&str, u64)]) -> Vec<(String, u64)> {
        names.iter().map(|(path, node)| ((*path).to_owned(), *node)).collect()
    }

    #[test]
    fn a_rename_that_replaces_a_file_is_atomic() {
        let mut names = Names::default();
        names.create(Path::new("d/a"), ONE);
        names.sync_dir(Path::new("d"));
        names.create(Path::new("d/tmp"), TWO);
        names.rename(Path::new("d/tmp"), Path::new("d/a"), TWO);
        let want = [outcome(&[("d/a", 1)]), outcome(&[("d/a", 1), ("d/tmp", 2)]), outcome(&[("d/a", 2)])];
        assert_eq!(torn_outcomes(&names), want.into());
    }

    #[test]
    fn different_names_are_independent() {
        let mut names = Names::default();
        names.create(Path::new("a"), ONE);
        names.create(Path::new("b"), TWO);
        let want = [outcome(&[]), outcome(&[("a", 1)]), outcome(&[("b", 2)]), outcome(&[("a", 1), ("b", 2)])];
        assert_eq!(torn_outcomes(&names), want.into());
    }

    #[test]
    fn syncing_one_end_of_a_rename_makes_earlier_changes_durable() {
        let mut names = Names::default();
        names.create(Path::new("from/a"), ONE);
        names.create(Path::new("from/b"), TWO);
        names.rename(Path::new("from/a"), Path::new("to/a"), ONE);
        names.sync_dir(Path::new("to"));
        assert_eq!(names_after(&names, PowerCutLoss::All, 0), outcome(&[("to/a", 1)]));
        names.sync_dir(Path::new("from"));
        assert_eq!(names_after(&names, PowerCutLoss::All, 0), outcome(&[("from/b", 2), ("to/a", 1)]));
    }

    #[test]
    fn a_removed_file_is_reachable_until_the_removal_is_durable() {
        let mut names = Names::default();
        names.create(Path::new("d/a"), ONE);
        names.remove(Path::new("d/a"), ONE);
        assert_eq!(names.reachable(), [ONE].into());
        names.sync_dir(Path::new("d"));
        assert_eq!(names.reachable(), [].into());
    }
}
