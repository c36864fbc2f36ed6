//! Memory of matches that were shown, for the next ones.
//!
//! An answer of some hundred megabytes passes through a few megabytes of slabs and pages. Given back to the allocator, and by
//! it to the operating system, they would be new and cleared memory each time: a third of the work of printing.

use std::sync::{Arc, Mutex, PoisonError};

/// Pieces of one size, at most so many of them.
#[derive(Debug)]
pub(crate) struct BufferPool<T> {
    free_list: Arc<FreeList<T>>,
}

#[derive(Debug)]
struct FreeList<T> {
    /// How many `T` a piece has room for.
    buffer_capacity: usize,
    buffers_max: usize,
    /// Short sections only.
    buffers: Mutex<Vec<Vec<T>>>,
}

impl<T> Clone for BufferPool<T> {
    fn clone(&self) -> Self {
        Self { free_list: Arc::clone(&self.free_list) }
    }
}

impl<T> BufferPool<T> {
    /// None yet, and never more than `most`, each with room for so many `T`.
    pub(crate) fn new(room: usize, most: usize) -> Self {
        Self { free_list: Arc::new(FreeList { buffer_capacity: room, buffers_max: most, buffers: Mutex::default() }) }
    }

    /// An empty piece with so much room, perhaps a spare one.
    pub(crate) fn acquire(&self, room: usize) -> Vec<T> {
        let spare = if room == self.free_list.buffer_capacity { self.lock().pop() } else { None };
        spare.unwrap_or_else(|| Vec::with_capacity(room))
    }

    /// Keeps a piece that is no longer needed, if it has the right size and there are not enough.
    pub(crate) fn release(&self, mut piece: Vec<T>) {
        if piece.capacity() == self.free_list.buffer_capacity {
            piece.clear();
            let mut pieces = self.lock();
            if pieces.len() < self.free_list.buffers_max {
                pieces.push(piece);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Vec<T>>> {
        self.free_list.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A piece that is given back when nobody reads it any more.
pub(crate) struct PooledBuffer {
    buffer: Vec<u8>,
    pool: BufferPool<u8>,
}

impl PooledBuffer {
    pub(crate) fn new(piece: Vec<u8>, spares: &BufferPool<u8>) -> Self {
        Self { buffer: piece, pool: spares.clone() }
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        self.pool.release(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn buffers_return_after_the_last_reader() {
        let spares = BufferPool::new(100, 1);
        let mut piece = spares.acquire(100);
        piece.extend_from_slice(b"abc");
        let at = piece.as_ptr();
        let all = Bytes::from_owner(PooledBuffer::new(piece, &spares));
        let some = all.slice(1..2);
        drop(all);
        let other = spares.acquire(100);
        assert_ne!(other.as_ptr(), at);
        assert_eq!(&some[..], b"b");
        drop(some);
        let again = spares.acquire(100);
        assert_eq!((again.as_ptr(), again.len()), (at, 0));
    }

    #[test]
    fn pool_is_bounded_and_keeps_one_capacity() {
        let spares: BufferPool<u64> = BufferPool::new(10, 2);
        for _ in 0..5 {
            spares.release(Vec::with_capacity(10));
        }
        spares.release(Vec::with_capacity(11));
        assert_eq!(spares.lock().len(), 2);
        assert_eq!(spares.acquire(7).capacity(), 7);
        assert_eq!(spares.lock().len(), 2);
    }
}
