//! Limits the memory of all request bodies together.
//!
//! A request holds a [`BodyReservation`], which grows before its buffers do and shrinks after its records were appended. A
//! request that gets no memory is not read from, and is refused after a timeout.
//!
//! If every request held half of the memory that it needs, all would wait forever. Therefore the memory for one request is
//! kept as overflow: a waiting request may get it in place of a larger reservation, until it holds little again.
//!
//! Invariant: memory is granted in the order of the requests for it, and so is the overflow memory.
#![expect(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

use std::sync::Arc;
use std::time::Duration;

use bucksaw_env::{GaugeGuard, set_gauge};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio::time::{Instant, timeout};

use super::body_error::BodyErrorReason;
use super::metrics::BodyMetrics;

/// Bytes that a request may hold without a reservation, so slow clients are served when memory is short.
pub(super) const UNRESERVED_BYTES_MAX: usize = 4 << 10;

/// Reservations are multiples of this number of bytes, so a body does not reserve memory for each packet.
const RESERVATION_STEP_BYTES: usize = 64 << 10;

/// The memory of all request bodies. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct BodyMemory(Arc<BodyMemoryState>);

#[derive(Debug)]
struct BodyMemoryState {
    bytes: Arc<Semaphore>,
    /// The permits of `bytes` when no request holds any.
    bytes_max: usize,
    /// One permit, for the overflow memory.
    overflow: Arc<Semaphore>,
    overflow_bytes: usize,
    wait_max: Duration,
    metrics: BodyMetrics,
}

impl BodyMemory {
    /// `bytes_max` in total, of which `overflow_bytes`, the need of one request, are overflow memory. The total is at least
    /// one and a quarter times that.
    pub(super) fn new(bytes_max: usize, overflow_bytes: usize, wait_max: Duration, metrics: BodyMetrics) -> Self {
        let overflow_bytes = overflow_bytes.next_multiple_of(RESERVATION_STEP_BYTES);
        let most = Semaphore::MAX_PERMITS.min(u32::MAX as usize);
        let bytes_max = bytes_max
            .saturating_sub(overflow_bytes)
            .clamp((overflow_bytes / 4).next_multiple_of(RESERVATION_STEP_BYTES), most)
            / RESERVATION_STEP_BYTES
            * RESERVATION_STEP_BYTES;
        Self(Arc::new(BodyMemoryState {
            bytes: Arc::new(Semaphore::new(bytes_max)),
            bytes_max,
            overflow: Arc::new(Semaphore::new(1)),
            overflow_bytes,
            wait_max,
            metrics,
        }))
    }

    /// The most that one request can reserve.
    pub(super) fn request_bytes_max(&self) -> usize {
        self.0.bytes_max.max(self.0.overflow_bytes)
    }

    /// A reservation of no memory.
    pub(super) fn empty_reservation(&self) -> BodyReservation {
        BodyReservation { memory: self.clone(), permit: None, overflow: None, wait_left: self.0.wait_max }
    }

    /// Whether a request waits for memory.
    pub(super) fn has_waiters(&self) -> bool {
        self.0.metrics.bodies_waiting.get() > 0
    }

    /// Counts a body that was refused for lack of memory.
    pub(super) fn count_refused(&self) {
        self.0.metrics.bodies_refused.inc();
    }

    fn update_gauge(&self) {
        let overflow = if self.0.overflow.available_permits() == 0 { self.0.overflow_bytes } else { 0 };
        let held = self.0.bytes_max - self.0.bytes.available_permits() + overflow;
        set_gauge(&self.0.metrics.body_bytes, held as u64);
    }
}

/// The memory that one request may hold. Dropping it frees the memory.
#[derive(Debug)]
pub(super) struct BodyReservation {
    memory: BodyMemory,
    permit: Option<OwnedSemaphorePermit>,
    overflow: Option<OwnedSemaphorePermit>,
    /// How long it may still wait in total. With a limit per wait, bodies that all hold a part could keep each other waiting.
    wait_left: Duration,
}

impl BodyReservation {
    /// Reserved memory, in bytes, not counting [`UNRESERVED_BYTES_MAX`].
    pub(super) fn bytes(&self) -> usize {
        let overflow = if self.overflow.is_some() { self.memory.0.overflow_bytes } else { 0 };
        self.permit_bytes().max(overflow)
    }

    fn permit_bytes(&self) -> usize {
        self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    /// Grows to `to` bytes if that much is free and no request waits. Returns whether it has them.
    pub(super) fn try_grow(&mut self, to: usize) -> bool {
        if to <= UNRESERVED_BYTES_MAX || to <= self.bytes() {
            return true;
        }
        let missing =
            u32::try_from(to.next_multiple_of(RESERVATION_STEP_BYTES) - self.permit_bytes()).unwrap_or(u32::MAX);
        match Arc::clone(&self.memory.0.bytes).try_acquire_many_owned(missing) {
            Ok(permit) => self.add_permit(permit),
            Err(TryAcquireError::NoPermits | TryAcquireError::Closed) => return false,
        }
        true
    }

    /// Grows to `to` bytes; waits for them if necessary.
    ///
    /// # Errors
    /// [`BodyErrorReason::TooLarge`] above all memory, [`BodyErrorReason::MemoryShort`] if other requests hold it for too long.
    /// The reservation is unchanged.
    pub(super) async fn grow(&mut self, to: usize) -> Result<(), BodyErrorReason> {
        if self.try_grow(to) {
            return Ok(());
        }
        let inner = Arc::clone(&self.memory.0);
        let wanted = to.next_multiple_of(RESERVATION_STEP_BYTES);
        let bytes_max = inner.bytes_max.max(inner.overflow_bytes);
        if wanted > bytes_max {
            let message = format!("the body needs more than {bytes_max} bytes at a time: send it in several");
            return Err(BodyErrorReason::TooLarge(message));
        }
        let missing = u32::try_from(wanted - self.permit_bytes()).unwrap_or(u32::MAX);
        let _waiting = GaugeGuard::new(&inner.metrics.bodies_waiting);
        let more = Arc::clone(&inner.bytes).acquire_many_owned(missing);
        let overflow = Arc::clone(&inner.overflow).acquire_owned();
        let since = Instant::now();
        let got = timeout(self.wait_left, async {
            tokio::select! {
                biased;
                more = more, if wanted <= inner.bytes_max => (more.ok(), None),
                overflow = overflow, if to <= inner.overflow_bytes => (None, overflow.ok()),
            }
        });
        let got = got.await;
        self.wait_left = self.wait_left.saturating_sub(since.elapsed());
        let Ok((more, overflow)) = got else {
            self.memory.count_refused();
            return Err(BodyErrorReason::MemoryShort("no memory for more request bodies: try again later"));
        };
        more.into_iter().for_each(|more| self.add_permit(more));
        self.overflow = self.overflow.take().or(overflow);
        self.memory.update_gauge();
        Ok(())
    }

    /// Lets the body wait as long as a new one, because it made progress.
    pub(super) fn reset_wait(&mut self) {
        self.wait_left = self.memory.0.wait_max;
    }

    /// Frees the memory beyond the need of `to` bytes.
    pub(super) fn shrink(&mut self, to: usize) {
        let wanted = if to <= UNRESERVED_BYTES_MAX { 0 } else { to.next_multiple_of(RESERVATION_STEP_BYTES) };
        if self.overflow.is_some() && wanted > self.permit_bytes() {
            // The overflow memory is freed as soon as ordinary memory is free.
            let missing = u32::try_from(wanted - self.permit_bytes()).unwrap_or(u32::MAX);
            match Arc::clone(&self.memory.0.bytes).try_acquire_many_owned(missing) {
                Ok(permit) => self.add_permit(permit),
                Err(_) => return,
            }
        }
        self.overflow = None;
        let surplus = self.permit_bytes().saturating_sub(wanted);
        if wanted == 0 {
            self.permit = None;
        } else if let Some(permit) = &mut self.permit {
            drop(permit.split(surplus));
        }
        self.memory.update_gauge();
    }

    fn add_permit(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            none => *none = Some(more),
        }
        self.memory.update_gauge();
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use prometheus_client::registry::Registry;

    const STEP: usize = RESERVATION_STEP_BYTES;

    fn on_runtime(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(test);
    }

    /// Six steps, of which two are overflow memory.
    fn budget() -> BodyMemory {
        BodyMemory::new(6 * STEP, 2 * STEP, Duration::from_secs(10), BodyMetrics::register(&mut Registry::default()))
    }

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn is_too_large(grown: &Result<(), BodyErrorReason>) -> bool {
        matches!(grown, Err(BodyErrorReason::TooLarge(_)))
    }

    fn is_memory_short(grown: &Result<(), BodyErrorReason>) -> bool {
        matches!(grown, Err(BodyErrorReason::MemoryShort(_)))
    }

    #[test]
    fn small_bodies_need_no_reservation_and_memory_is_freed() {
        let budget = budget();
        let mut shares = [budget.empty_reservation(), budget.empty_reservation(), budget.empty_reservation()];
        assert!(shares[0].try_grow(4 * STEP));
        assert!(!shares[1].try_grow(UNRESERVED_BYTES_MAX + 1));
        assert!(shares[1].try_grow(UNRESERVED_BYTES_MAX));
        assert_eq!(budget.0.metrics.body_bytes.get(), 4 * STEP as i64);
        shares[0].shrink(STEP + 1);
        assert_eq!(shares[0].bytes(), 2 * STEP);
        assert!(shares[1].try_grow(2 * STEP) && !shares[2].try_grow(STEP));
        drop(shares);
        assert_eq!(budget.0.metrics.body_bytes.get(), 0);
        assert_eq!(budget.0.bytes.available_permits(), 4 * STEP);
    }

    #[test]
    fn bodies_that_hold_half_each_all_finish() {
        on_runtime(async {
            let budget = budget();
            let mut shares: Vec<BodyReservation> = (0..4).map(|_| budget.empty_reservation()).collect();
            assert!(shares.iter_mut().all(|share| share.try_grow(STEP)));
            let tasks: Vec<_> = shares
                .into_iter()
                .map(|mut share| {
                    tokio::spawn(async move {
                        let grown = share.grow(2 * STEP).await;
                        // It keeps its memory for a while, like a body that is read.
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        grown
                    })
                })
                .collect();
            for task in tasks {
                assert_eq!(task.await.unwrap(), Ok(()));
            }
            assert!(!budget.has_waiters());
            assert_eq!((budget.0.bytes.available_permits(), budget.0.overflow.available_permits()), (4 * STEP, 1));
        });
    }

    #[test]
    fn the_largest_body_fits_into_the_least_memory() {
        on_runtime(async {
            let budget =
                BodyMemory::new(0, 8 * STEP, Duration::from_secs(10), BodyMetrics::register(&mut Registry::default()));
            let (mut first, mut second) = (budget.empty_reservation(), budget.empty_reservation());
            assert!(second.try_grow(STEP));
            assert_eq!(first.grow(8 * STEP).await, Ok(()));
            assert_eq!(second.grow(2 * STEP).await, Ok(()), "beside the overflow memory");
            assert!(is_too_large(&budget.empty_reservation().grow(8 * STEP + 1).await));
            assert!(is_memory_short(&second.grow(8 * STEP).await), "the overflow memory is in use");
            drop(first);
            second.reset_wait();
            assert_eq!(second.grow(8 * STEP).await, Ok(()));
        });
    }

    #[test]
    fn overflow_memory_serves_one_body_at_a_time() {
        on_runtime(async {
            let budget = budget();
            let (mut full, mut first, mut second) =
                (budget.empty_reservation(), budget.empty_reservation(), budget.empty_reservation());
            assert!(full.try_grow(4 * STEP));
            assert_eq!(first.grow(2 * STEP).await, Ok(()));
            let mut waits = pin!(second.grow(STEP));
            assert_eq!(poll(waits.as_mut()), None);
            assert!(budget.has_waiters());
            // It still needs a reservation, and no memory is free.
            first.shrink(STEP);
            assert_eq!(poll(waits.as_mut()), None);
            first.shrink(0);
            assert_eq!(poll(waits.as_mut()), Some(Ok(())));
            assert!(!budget.has_waiters());
        });
    }

    #[test]
    fn a_wait_times_out_and_a_reservation_above_the_limit_fails_at_once() {
        on_runtime(async {
            let budget = budget();
            let (mut full, mut overflow, mut share) =
                (budget.empty_reservation(), budget.empty_reservation(), budget.empty_reservation());
            assert!(is_too_large(&share.grow(4 * STEP + 1).await));
            assert!(full.try_grow(4 * STEP));
            assert_eq!(overflow.grow(1 + STEP).await, Ok(()));
            assert!(is_memory_short(&share.grow(STEP).await));
            assert_eq!(budget.0.metrics.bodies_refused.get(), 1);
            // Its total wait is used up until it makes progress.
            assert!(poll(pin!(share.grow(STEP))).is_some_and(|grown| is_memory_short(&grown)));
            share.reset_wait();
            {
                let mut waits = pin!(share.grow(STEP));
                assert_eq!(poll(waits.as_mut()), None);
                drop(full);
                assert_eq!(waits.await, Ok(()));
            }
            assert_eq!(share.grow(4 * STEP).await, Ok(()));
        });
    }
}
