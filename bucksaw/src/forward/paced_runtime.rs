//! The runtime of an agent with local listeners, whose thread works in turns.
//!
//! A wake-up of a thread costs as much CPU time as decoding a hundred lines, and an application that logs sends hundreds of
//! small messages per second. So the thread sleeps between two turns, and does not wait for events meanwhile: what all
//! senders and the node sent in that time is handled by one wake-up. A message that arrives after a longer pause of all
//! senders is handled at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bucksaw_env::{Clock, Env};
use tokio::runtime::{Builder, Runtime};

/// The pause after a turn with hardly any work, and so the longest delay of an event.
const PAUSE_MAX: Duration = Duration::from_millis(40);

/// A turn shortens the pause after it by this multiple of its duration, so that a fast sender does not wait: from 8 ms of work
/// on, which cost a hundred times as much as a wake-up, there is no pause.
const WORK_FACTOR: u32 = 5;

/// Starts a runtime with one thread, the calling one.
///
/// # Errors
/// The system has no more descriptors.
pub(super) fn start() -> io::Result<Runtime> {
    let pacer = Arc::new(TurnPacer { clock: Env::real().clock, began_at: AtomicU64::new(0) });
    let beginning = Arc::clone(&pacer);
    Builder::new_current_thread()
        .enable_all()
        .on_thread_unpark(move || beginning.begin_turn())
        .on_thread_park(move || pacer.pause())
        .build()
}

/// Sleeps between two turns.
struct TurnPacer {
    clock: Arc<dyn Clock>,
    /// The uptime at which the turn began, in nanoseconds.
    began_at: AtomicU64,
}

impl TurnPacer {
    fn begin_turn(&self) {
        let now = u64::try_from(self.clock.uptime().as_nanos()).unwrap_or(u64::MAX);
        self.began_at.store(now, Ordering::Relaxed);
    }

    fn pause(&self) {
        let began_at = Duration::from_nanos(self.began_at.load(Ordering::Relaxed));
        let pause = pause_after(self.clock.uptime().saturating_sub(began_at));
        if !pause.is_zero() {
            self.clock.sleep(pause);
        }
    }
}

/// The pause after a turn of this duration.
fn pause_after(turn: Duration) -> Duration {
    PAUSE_MAX.saturating_sub(turn * WORK_FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_with_much_work_is_followed_by_a_short_pause() {
        let check = |turn_ms: u64, want_ms: u64| {
            assert_eq!(pause_after(Duration::from_millis(turn_ms)), Duration::from_millis(want_ms));
        };
        check(0, 40);
        check(2, 30);
        check(8, 0);
        check(9_000, 0);
    }

    #[test]
    fn a_message_between_two_tasks_needs_no_further_turn() {
        let clock = Env::real().clock;
        let runtime = start().unwrap();
        let started = clock.uptime();
        let passed = runtime.block_on(async {
            let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
            let sending = tokio::spawn(async move {
                for number in 0..1_000 {
                    sender.send(number).await.unwrap();
                }
            });
            let mut passed = 0;
            while receiver.recv().await.is_some() {
                passed += 1;
            }
            sending.await.unwrap();
            passed
        });
        assert_eq!(passed, 1_000);
        // With a pause for each message it would be 40 s.
        assert!(clock.uptime() - started < Duration::from_secs(10));
    }
}
