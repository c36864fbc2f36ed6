//! Memory of matches that were shown, for the next ones.
//!
//! An answer of some hundred megabytes passes through a few megabytes of slabs and pages. Given back to the allocator, and by
//! it to the operating system, they would be new and cleared memory each time: a third of the work of printing.

use std::sync::{Arc, Mutex, PoisonError};

/// Pieces of one size, at most so many of them.
#[derive(Debug)]
pub(crate) struct Spares<T> {
    shared: Arc<Shared<T>>,
}

#[derive(Debug)]
struct Shared<T> {
    /// How many `T` a piece has room for.
    room: usize,
    most: usize,
    /// Short sections only.
    pieces: Mutex<Vec<Vec<T>>>,
}

impl<T> Clone for Spares<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Spares<T> {
    /// None yet, and never more than `most`, each with room for so many `T`.
    pub(crate) fn new(room: usize, most: usize) -> Self {
        Self { shared: Arc::new(Shared { room, most, pieces: Mutex::default() }) }
    }

    /// An empty piece with so much room, perhaps a spare one.
    pub(crate) fn take(&self, room: usize) -> Vec<T> {
        let spare = if room == self.shared.room { self.lock().pop() } else { None };
        spare.unwrap_or_else(|| Vec::with_capacity(room))
    }

    /// Keeps a piece that is no longer needed, if it has the right size and there are not enough.
    pub(crate) fn give(&self, mut piece: Vec<T>) {
        if piece.capacity() == self.shared.room {
            piece.clear();
            let mut pieces = self.lock();
            if pieces.len() < self.shared.most {
                pieces.push(piece);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Vec<T>>> {
        self.shared.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A piece that is given back when nobody reads it any more.
pub(crate) struct Lent {
    piece: Vec<u8>,
    spares: Spares<u8>,
}

impl Lent {
    pub(crate) fn new(piece: Vec<u8>, spares: &Spares<u8>) -> Self {
        Self { piece, spares: spares.clone() }
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.spares.give(std::mem::take(&mut self.piece));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn pieces_come_back_when_the_last_reader_has_gone() {
        let spares = Spares::new(100, 1);
        let mut piece = spares.take(100);
        piece.extend_from_slice(b"abc");
        let at = piece.as_ptr();
        let all = Bytes::from_owner(Lent::new(piece, &spares));
        let some = all.slice(1..2);
        drop(all);
        let other = spares.take(100);
        assert_ne!(other.as_ptr(), at);
        assert_eq!(&some[..], b"b");
        drop(some);
        let again = spares.take(100);
        assert_eq!((again.as_ptr(), again.len()), (at, 0));
    }

    #[test]
    fn few_are_kept_and_none_of_another_size() {
        let spares: Spares<u64> = Spares::new(10, 2);
        for _ in 0..5 {
            spares.give(Vec::with_capacity(10));
        }
        spares.give(Vec::with_capacity(11));
        assert_eq!(spares.lock().len(), 2);
        assert_eq!(spares.take(7).capacity(), 7);
        assert_eq!(spares.lock().len(), 2);
    }
}
