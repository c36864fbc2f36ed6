//! The numbers by which a scenario names its faults. Frequent faults have several.

/// The number of faults.
pub(crate) const FAULTS: usize = 27;

/// Destroys a store.
pub(crate) const DESTROY: usize = 22;

/// Loses the disk of a store.
pub(crate) const LOSE_DISK: usize = 25;

/// Kill processes.
pub(crate) const KILLS: [usize; 2] = [0, 1];

/// Cut power.
pub(crate) const POWER: [usize; 3] = [2, 3, 18];
