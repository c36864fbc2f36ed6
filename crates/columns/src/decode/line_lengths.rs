//! The lengths of the lines that were measured.
//!
//! Most questions build few lines, so lengths are kept in pieces that are made on first use.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The lines of a piece.
const PIECE_LINES: usize = 4096;

/// For each line its length plus 1, or 0 if it was not measured.
#[derive(Debug, Default)]
pub(crate) struct LineLengths(Box<[OnceLock<Box<[AtomicU32]>>]>);

impl LineLengths {
    pub(crate) fn new(lines: usize) -> Self {
        Self((0..lines.div_ceil(PIECE_LINES)).map(|_| OnceLock::new()).collect())
    }

    /// The length of a line, if it was measured.
    #[inline]
    pub(crate) fn get(&self, line: u32) -> Option<u32> {
        let piece = self.0.get(line as usize / PIECE_LINES)?.get()?;
        piece.get(line as usize % PIECE_LINES)?.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Keeps the length of a line; `add_memory` is given the bytes of a new piece.
    #[inline]
    pub(crate) fn set(&self, line: u32, length: u32, add_memory: impl Fn(usize)) {
        let Some(piece) = self.0.get(line as usize / PIECE_LINES) else { return };
        let piece = piece.get_or_init(|| {
            add_memory(PIECE_LINES * size_of::<AtomicU32>());
            (0..PIECE_LINES).map(|_| AtomicU32::new(0)).collect()
        });
        if let Some(known) = piece.get(line as usize % PIECE_LINES) {
            known.store(length.wrapping_add(1), Ordering::Relaxed);
        }
    }
}
