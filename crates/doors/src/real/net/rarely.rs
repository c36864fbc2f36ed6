//! Telling now and then of what others can make happen as often as they like.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// So long nothing is told again.
const PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Rarely(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    last: Option<Instant>,
    since: u64,
}

impl Rarely {
    /// Whether to tell now, and then how often it was not told before.
    pub(super) fn now(&self) -> Option<u64> {
        let now = Instant::now();
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.last.is_some_and(|last| now.duration_since(last) < PAUSE) {
            told.since += 1;
            return None;
        }
        told.last = Some(now);
        Some(std::mem::take(&mut told.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_told_once_in_a_while_and_how_often_not() {
        let rarely = Rarely::default();
        assert_eq!(rarely.now(), Some(0));
        assert_eq!((rarely.now(), rarely.now()), (None, None));
        rarely.0.lock().unwrap().last = Instant::now().checked_sub(PAUSE);
        assert_eq!(rarely.now(), Some(2));
        assert_eq!(rarely.now(), None);
    }
}
