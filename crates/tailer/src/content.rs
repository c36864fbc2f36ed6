//! Compares files with what is remembered of them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bucksaw_env::{EntryKind, File, FileStat, Fs};

use crate::fingerprint::{ANCHOR_BYTES_MAX, FINGERPRINT_BYTES_MAX};
use crate::position::FilePosition;

/// Opens a regular file.
pub(crate) fn open_regular(fs: &dyn Fs, path: &Path) -> io::Result<(Arc<dyn File>, FileStat)> {
    let file = fs.open(path)?;
    let stat = file.stat()?;
    if stat.kind == EntryKind::File { Ok((file, stat)) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// The first bytes of a file, up to a fingerprint's length.
pub(crate) fn head_of(file: &dyn File) -> io::Result<Vec<u8>> {
    let mut head = vec![0; FINGERPRINT_BYTES_MAX];
    let length = file.read_at(0, &mut head)?;
    head.truncate(length);
    Ok(head)
}

/// Whether a file begins with what was read of the file of `position`, as far as is remembered.
pub(crate) fn continues(file: &dyn File, position: &FilePosition) -> io::Result<bool> {
    Ok(position.fingerprint.matches(&head_of(file)?) && has_anchor(file, position)?)
}

/// Whether the anchor of `position` is before its offset.
pub(crate) fn has_anchor(file: &dyn File, position: &FilePosition) -> io::Result<bool> {
    has_bytes_before(file, position.offset, position.anchor.as_bytes())
}

/// Whether `bytes` are before `offset`.
pub(crate) fn has_bytes_before(file: &dyn File, offset: u64, bytes: &[u8]) -> io::Result<bool> {
    let mut found = [0; ANCHOR_BYTES_MAX];
    let found = found.get_mut(..bytes.len()).unwrap_or_default();
    let read = file.read_at(offset.saturating_sub(bytes.len() as u64), found)?;
    Ok(read == bytes.len() && found == bytes)
}

/// Whether the first `size` bytes of `copy` end as those of `original`.
pub(crate) fn ends_alike(copy: &dyn File, original: &dyn File, size: u64) -> io::Result<bool> {
    let length = size.min(ANCHOR_BYTES_MAX as u64) as usize;
    let mut end = [0; ANCHOR_BYTES_MAX];
    let end = end.get_mut(..length).unwrap_or_default();
    let read = copy.read_at(size - length as u64, end)?;
    Ok(read == length && has_bytes_before(original, size, end)?)
}
