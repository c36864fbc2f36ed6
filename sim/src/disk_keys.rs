//! The keys of machines with encrypted disks.

use std::sync::Arc;

use bucksaw_crypt::{EncryptedFs, KeyList, KeyRing};
use bucksaw_env::{Entropy, FileKeys, Fs, sim};

/// Two keys. Machines have both, and each start takes another one for new files.
const KEYS: [&str; 2] = [
    "0101010101010101010101010101010101010101010101010101010101010101",
    "0202020202020202020202020202020202020202020202020202020202020202",
];

/// The keys of a start with this number; `None` only if they could not be parsed.
fn keys(start: u64, entropy: Arc<dyn Entropy>) -> Option<Arc<dyn FileKeys>> {
    let [one, two] = KEYS;
    let text = if start.is_multiple_of(2) { format!("{one}\n{two}") } else { format!("{two}\n{one}") };
    Some(Arc::new(KeyRing::new(KeyList::parse(text.as_bytes()).ok()?, entropy)))
}

/// A file system that encrypts, for a start with this number.
pub(crate) fn encrypt(fs: Arc<dyn Fs>, start: u64, entropy: Arc<dyn Entropy>) -> Arc<dyn Fs> {
    match keys(start, entropy) {
        Some(keys) => Arc::new(EncryptedFs::new(fs, keys)),
        None => fs,
    }
}

/// The keys with which the checks read files, encrypted or not.
pub(crate) fn reading_keys() -> Option<Arc<dyn FileKeys>> {
    keys(0, Arc::new(sim::Entropy::seeded(0)))
}
