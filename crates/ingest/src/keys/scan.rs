//! Reading a file of keys, entry by entry, past what is damaged.

use std::io;
use std::path::Path;

use bucksaw_env::{Env, File};
use bucksaw_record::Id;

use super::entry::{ENTRY_LEN, KeyEntry, MAGIC};

/// Entries that are read at a time.
const ENTRIES_AT_ONCE: usize = 4 << 10;

/// What a file of keys holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyFileReport {
    /// Notes that can be read.
    pub sound: u64,
    /// Notes that cannot: their batches are forgotten.
    pub damaged: u64,
    /// Where the first damage is, also that of the file's header, which costs nothing.
    pub damaged_at: Option<u64>,
}

/// Reads a file. What a crash may leave at its end is no damage: a part of an entry, and `may_have_lost_writes` any bytes.
pub(super) fn scan_key_file(
    file: &dyn File,
    id: Id,
    may_have_lost_writes: bool,
    each: &mut dyn FnMut(&KeyEntry),
) -> io::Result<KeyFileReport> {
    let mut header = [0; MAGIC.len()];
    let mut at = file.read_at(0, &mut header)? as u64;
    if at < header.len() as u64 {
        return Ok(KeyFileReport::default());
    }
    let mut found = KeyFileReport { damaged_at: (header != MAGIC).then_some(0), ..KeyFileReport::default() };
    // Entries behind the last sound one, and where they begin.
    let mut tail: Option<(u64, u64)> = None;
    let mut bytes = vec![0; ENTRIES_AT_ONCE * ENTRY_LEN];
    loop {
        let got = file.read_at(at, &mut bytes)?;
        for bytes in bytes.get(..got).unwrap_or_default().chunks_exact(ENTRY_LEN) {
            match KeyEntry::decode(bytes, id) {
                Some(entry) => {
                    each(&entry);
                    found.sound += 1;
                    found.count_damaged(tail.take());
                }
                None => tail = Some(tail.map_or((1, at), |(count, first)| (count + 1, first))),
            }
            at += ENTRY_LEN as u64;
        }
        if got < bytes.len() {
            break;
        }
    }
    if !may_have_lost_writes {
        found.count_damaged(tail);
    }
    Ok(found)
}

impl KeyFileReport {
    fn count_damaged(&mut self, damaged: Option<(u64, u64)>) {
        let Some((count, first)) = damaged else { return };
        self.damaged += count;
        self.damaged_at = self.damaged_at.or(Some(first));
    }
}

/// Checks a file in the queue's directory; `None` when it is none of keys.
///
/// # Errors
/// What the operating system says.
pub(crate) fn check(env: &Env, path: &Path, may_have_lost_writes: bool) -> std::io::Result<Option<KeyFileReport>> {
    let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".keys")?.parse::<Id>().ok());
    let Some(id) = name else { return Ok(None) };
    scan_key_file(&*env.fs.open(path)?, id, may_have_lost_writes, &mut |_| {}).map(Some)
}
