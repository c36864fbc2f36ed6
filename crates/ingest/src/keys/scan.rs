//! Reads a key file and skips damaged entries.

use std::io;
use std::path::Path;

use bucksaw_env::{Env, File, file_name};
use bucksaw_record::Id;

use super::entry::{ENTRY_LEN, KeyEntry, MAGIC};
use crate::queue_file::parse_name;

/// Entries that are read at a time.
const ENTRIES_AT_ONCE: usize = 4 << 10;

/// The state of a key file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyFileReport {
    /// The number of readable entries.
    pub sound: u64,
    /// The number of unreadable entries, whose batches are forgotten.
    pub damaged: u64,
    /// The offset of the first damage; 0 for the header, whose damage costs no entry.
    pub damaged_at: Option<u64>,
}

/// Reads a file. A crash may leave a part of an entry at the end, and if `may_have_lost_writes` any bytes; neither is damage.
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
    // The number and the offset of the unreadable entries behind the last readable one.
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

/// Checks a file in the queue's directory; `None` if it is no key file.
pub(crate) fn check(env: &Env, path: &Path, may_have_lost_writes: bool) -> std::io::Result<Option<KeyFileReport>> {
    let name = file_name(path);
    let Some((id, "keys")) = parse_name(&name) else { return Ok(None) };
    scan_key_file(&*env.fs.open(path)?, id, may_have_lost_writes, &mut |_| {}).map(Some)
}
