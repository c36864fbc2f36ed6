//! Pools the memory of matches that were read.
//!
//! An answer of some hundred megabytes passes through a few megabytes of slabs and pages. Without the pool the
//! allocator returned these to the operating system, which cleared them for each use: a third of the time of a large
//! answer.

use std::sync::{Arc, Mutex};

use bucksaw_env::lock;

/// A bounded pool of buffers of one capacity. Cheap to clone.
#[derive(Debug)]
pub(crate) struct BufferPool<T> {
    free_list: Arc<FreeList<T>>,
}

#[derive(Debug)]
struct FreeList<T> {
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
    /// An empty pool.
    pub(crate) fn new(buffer_capacity: usize, buffers_max: usize) -> Self {
        Self { free_list: Arc::new(FreeList { buffer_capacity, buffers_max, buffers: Mutex::default() }) }
    }

    /// An empty buffer of this capacity, from the pool if it has one.
    pub(crate) fn acquire(&self, capacity: usize) -> Vec<T> {
        let pooled =
            if capacity == self.free_list.buffer_capacity { lock(&self.free_list.buffers).pop() } else { None };
        pooled.unwrap_or_else(|| Vec::with_capacity(capacity))
    }

    /// Takes a buffer back if it has the right capacity and the pool is not full.
    pub(crate) fn release(&self, mut buffer: Vec<T>) {
        if buffer.capacity() == self.free_list.buffer_capacity {
            buffer.clear();
            let mut buffers = lock(&self.free_list.buffers);
            if buffers.len() < self.free_list.buffers_max {
                buffers.push(buffer);
            }
        }
    }
}

/// A buffer that returns to its pool after its last reader.
pub(crate) struct PooledBuffer {
    buffer: Vec<u8>,
    pool: BufferPool<u8>,
}

impl PooledBuffer {
    pub(crate) fn new(buffer: Vec<u8>, pool: &BufferPool<u8>) -> Self {
        Self { buffer, pool: pool.clone() }
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
        let pool = BufferPool::new(100, 1);
        let mut buffer = pool.acquire(100);
        buffer.extend_from_slice(b"abc");
        let address = buffer.as_ptr();
        let all = Bytes::from_owner(PooledBuffer::new(buffer, &pool));
        let part = all.slice(1..2);
        drop(all);
        let other = pool.acquire(100);
        assert_ne!(other.as_ptr(), address);
        assert_eq!(&part[..], b"b");
        drop(part);
        let reused = pool.acquire(100);
        assert_eq!((reused.as_ptr(), reused.len()), (address, 0));
    }

    #[test]
    fn pool_is_bounded_and_keeps_one_capacity() {
        let pool: BufferPool<u64> = BufferPool::new(10, 2);
        for _ in 0..5 {
            pool.release(Vec::with_capacity(10));
        }
        pool.release(Vec::with_capacity(11));
        assert_eq!(lock(&pool.free_list.buffers).len(), 2);
        assert_eq!(pool.acquire(7).capacity(), 7);
        assert_eq!(lock(&pool.free_list.buffers).len(), 2);
    }
}
