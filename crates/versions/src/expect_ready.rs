//! Bodies that are there already are read by async functions that wait for nothing.
#![expect(clippy::panic, reason = "a test fails by a panic")]

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// What comes of something that waits for nothing.
///
/// # Panics
/// When it waits.
pub fn expect_ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("it waits"),
    }
}
