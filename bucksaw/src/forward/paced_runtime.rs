//! The runtime of an agent with local listeners, whose thread works in turns.
//!
//! A wake-up of a thread costs as much CPU time as decoding a hundred lines, and an application that logs sends hundreds of
//! small messages per second. So the thread sleeps between two turns, and does not wait for events meanwhile: what all
//! senders and the node sent in that time is handled by one wake-up. A message that arrives after a longer pause of all
//! senders is handled at once.
//!
//! A sender that waits for an acknowledgement before it sends the next message would send one in each pause. So the pauses are
//! short while a sender waits, and for a while after that.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bucksaw_env::{Clock, Env};
use bucksaw_sources::WaitingSenders;
use tokio::runtime::{Builder, Runtime};

/// The pause after a turn with hardly any work, and so the longest delay of an event.
const PAUSE_MAX: Duration = Duration::from_millis(80);

/// The same while a sender waits, and how long after that.
const SHORT_PAUSE_MAX: Duration = Duration::from_millis(4);
const SHORT_PAUSES_TIME: Duration = Duration::from_millis(100);

/// A turn shortens the pause after it by this multiple of its duration, so that a fast sender does not wait: from 8 ms of work
/// on, which cost a hundred times as much as a wake-up, there is no pause.
const WORK_FACTOR: u32 = 10;

/// Starts a runtime with one thread, the calling one.
///
/// # Errors
/// The system has no more descriptors.
pub(super) fn start(waiting: &WaitingSenders) -> io::Result<Runtime> {
    let pacer = Arc::new(TurnPacer::new(Env::real().clock, waiting.clone()));
    let beginning = Arc::clone(&pacer);
    Builder::new_current_thread()
        .enable_all()
        .on_thread_unpark(move || beginning.begin_turn())
        .on_thread_park(move || pacer.pause())
        .build()
}

/// Sleeps between two turns. Times are uptimes in nanoseconds, of which the only thread of the runtime knows all.
struct TurnPacer {
    clock: Arc<dyn Clock>,
    waiting: WaitingSenders,
    began_at: AtomicU64,
    /// The waits that had ended at the last turn.
    ended_waits: AtomicU64,
    /// Until when pauses are short.
    short_until: AtomicU64,
}

impl TurnPacer {
    fn new(clock: Arc<dyn Clock>, waiting: WaitingSenders) -> Self {
        let [began_at, ended_waits, short_until] = Default::default();
        Self { clock, waiting, began_at, ended_waits, short_until }
    }

    fn begin_turn(&self) {
        self.began_at.store(nanoseconds(self.clock.uptime()), Ordering::Relaxed);
    }

    fn pause(&self) {
        let pause = self.next_pause(self.clock.uptime());
        if !pause.is_zero() {
            self.clock.sleep(pause);
        }
    }

    /// The pause after a turn that ends now.
    fn next_pause(&self, now: Duration) -> Duration {
        let ended = self.waiting.ended();
        let has_waited = self.ended_waits.swap(ended, Ordering::Relaxed) != ended;
        if has_waited || self.waiting.is_any() {
            self.short_until.store(nanoseconds(now + SHORT_PAUSES_TIME), Ordering::Relaxed);
        }
        let is_short = nanoseconds(now) < self.short_until.load(Ordering::Relaxed);
        let longest = if is_short { SHORT_PAUSE_MAX } else { PAUSE_MAX };
        let began_at = Duration::from_nanos(self.began_at.load(Ordering::Relaxed));
        longest.saturating_sub(now.saturating_sub(began_at) * WORK_FACTOR)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
#[cfg(test)]
mod tests {
    use super::*;

    fn pacer() -> TurnPacer {
        TurnPacer::new(Env::real().clock, WaitingSenders::default())
    }

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn a_turn_with_much_work_is_followed_by_a_short_pause() {
        for (turn_ms, pause_ms) in [(0, 80), (2, 60), (8, 0), (9_000, 0)] {
            assert_eq!(pacer().next_pause(ms(turn_ms)), ms(pause_ms), "{turn_ms}");
        }
    }

    #[test]
    fn pauses_are_short_while_a_sender_waits_and_for_a_while_after_that() {
        let pacer = pacer();
        let pause_at = |now| {
            pacer.began_at.store(nanoseconds(ms(now)), Ordering::Relaxed);
            pacer.next_pause(ms(now))
        };
        assert_eq!(pause_at(1), ms(80));
        let wait = pacer.waiting.begin();
        assert_eq!([pause_at(81), pause_at(5_000)], [ms(4); 2]);
        drop(wait);
        assert_eq!([pause_at(5_004), pause_at(5_103), pause_at(5_104)], [ms(4), ms(4), ms(80)]);
        // A wait between two turns.
        drop(pacer.waiting.begin());
        assert_eq!([pause_at(5_184), pause_at(5_284)], [ms(4), ms(80)]);
    }

    #[test]
    fn a_message_between_two_tasks_needs_no_further_turn() {
        let clock = Env::real().clock;
        let runtime = start(&WaitingSenders::default()).unwrap();
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
        // With a pause for each message it would be 80 s.
        assert!(clock.uptime() - started < Duration::from_secs(10));
    }
}
