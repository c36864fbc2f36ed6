//! The thread that ships the queue, and the order of its end.
#![expect(clippy::disallowed_methods, reason = "the agent is not simulated: real sockets, in real time")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bucksaw_env::{Env, LogLimits, lock};
use bucksaw_ingest::Queue;
use bucksaw_record::Labels;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::QueueInput;
use super::shipper::QueueShipper;
use crate::send_window::SendWindow;

/// How often the queue closes segments.
const TICK: Duration = Duration::from_millis(100);

/// How often acknowledgements are looked for while batches are in the window.
const BUSY_INTERVAL: Duration = Duration::from_millis(20);

/// Ships the queue of local listeners until it is stopped.
pub(crate) struct QueueRunner {
    queue: Arc<Queue>,
    shipper: Arc<Mutex<QueueShipper>>,
    listeners: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
    stop: Arc<AtomicBool>,
    ended: Option<oneshot::Receiver<()>>,
}

impl QueueRunner {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no more threads.
    pub(crate) fn start(
        input: QueueInput,
        window: &Arc<SendWindow>,
        labels: &Labels,
        env: &Env,
    ) -> std::io::Result<Self> {
        let QueueInput { queue, bytes_max, when_full, listeners } = input;
        let log_limits = LogLimits::new(Arc::clone(&env.clock));
        let limits = (bytes_max, when_full);
        let shipper = QueueShipper::new(Arc::clone(&queue), limits, Arc::clone(window), labels.clone(), log_limits);
        let shipper = Arc::new(Mutex::new(shipper));
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, ticked, stopping, env) =
            (Arc::clone(&shipper), Arc::clone(&queue), Arc::clone(&stop), env.clone());
        let (running, ended) = oneshot::channel::<()>();
        let work = move || {
            // Dropped at the end, also by a panic.
            let _running = running;
            let mut next_tick = Duration::ZERO;
            while !stopping.load(Ordering::Relaxed) {
                let now = env.clock.uptime();
                if now >= next_tick {
                    ticked.tick();
                    next_tick = now + TICK;
                }
                let is_busy = {
                    let mut shipper = lock(&shared);
                    shipper.step(now);
                    shipper.waiting_segments() > 0
                };
                let until_tick = next_tick.saturating_sub(env.clock.uptime());
                env.clock.sleep(if is_busy { until_tick.min(BUSY_INTERVAL) } else { until_tick });
            }
        };
        thread::Builder::new().name("queue".to_owned()).spawn(work)?;
        Ok(Self { queue, shipper, listeners, stop, ended: Some(ended) })
    }

    /// Resolves when the thread has ended. To be taken once.
    pub(crate) fn take_ended(&mut self) -> Option<oneshot::Receiver<()>> {
        self.ended.take()
    }

    /// Syncs records whose senders wait for that, for ever.
    pub(crate) fn sync_records(&self) -> impl Future<Output = ()> + use<> {
        let queue = Arc::clone(&self.queue);
        async move {
            loop {
                queue.wait_unsynced().await;
                let queue = Arc::clone(&queue);
                // A panic in it is a bug, after which nothing `durable` is acknowledged.
                let _ = spawn_blocking(move || queue.commit_group()).await;
            }
        }
    }

    /// Tells the records that were dropped because the queue was full, and the segments without an acknowledgement.
    pub(crate) fn counts(&self) -> impl Fn() -> (u64, u64) + Send + Sync + use<> {
        let shipper = Arc::clone(&self.shipper);
        move || {
            let shipper = lock(&shipper);
            (shipper.dropped_records(), shipper.waiting_segments() as u64)
        }
    }

    /// Waits for the end of the listeners, closes the queue, and waits until all of it is acknowledged.
    pub(crate) async fn drain(&mut self, timeout: Duration) {
        (&mut self.listeners).await;
        let queue = Arc::clone(&self.queue);
        let _ = spawn_blocking(move || queue.close()).await;
        let drained = async {
            while !lock(&self.shipper).is_drained() {
                sleep(BUSY_INTERVAL).await;
            }
        };
        // The next start ships the rest.
        let _ = tokio::time::timeout(timeout, drained).await;
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Records dropped because the queue was full, and segments that wait for the next start.
    pub(crate) fn backlog(&self) -> (u64, u64) {
        let mut shipper = lock(&self.shipper);
        shipper.commit_acked();
        (shipper.dropped_records(), shipper.waiting_segments() as u64)
    }
}

impl Drop for QueueRunner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
