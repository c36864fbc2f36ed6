//! The task that ships the queue, and the order of its end.
#![expect(clippy::disallowed_methods, reason = "the agent is not simulated: real sockets, in real time")]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::{Env, LogLimits, lock};
use bucksaw_ingest::Queue;
use bucksaw_record::Labels;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::QueueInput;
use super::shipper::QueueShipper;
use crate::send_window::SendWindow;

/// How often the queue closes old segments and removes committed ones.
const TICK: Duration = Duration::from_secs(1);

/// The same while the queue refuses records, so that it accepts them soon when there is room.
const TICK_WHEN_HALTED: Duration = Duration::from_millis(100);

/// The same while the queue has no files. An append ends this wait.
const TICK_WHEN_IDLE: Duration = Duration::from_secs(10);

/// How often the end of the queue is looked for.
const DRAIN_INTERVAL: Duration = Duration::from_millis(20);

/// Ships the queue of local listeners until it is stopped.
pub(crate) struct QueueRunner {
    env: Env,
    queue: Arc<Queue>,
    window: Arc<SendWindow>,
    shipper: Arc<Mutex<QueueShipper>>,
    listeners: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl QueueRunner {
    pub(crate) fn new(input: QueueInput, window: &Arc<SendWindow>, labels: &Labels, env: &Env) -> Self {
        let QueueInput { queue, bytes_max, when_full, listeners } = input;
        let log_limits = LogLimits::new(Arc::clone(&env.clock));
        let limits = (bytes_max, when_full);
        let shipper = QueueShipper::new(Arc::clone(&queue), limits, Arc::clone(window), labels.clone(), log_limits);
        let (env, window) = (env.clone(), Arc::clone(window));
        Self { env, queue, window, shipper: Arc::new(Mutex::new(shipper)), listeners }
    }

    /// Ships, and syncs records whose senders wait for that, for ever. Reads files on the calling thread, as the listeners
    /// write them: mostly what was just written.
    pub(crate) fn run(&self) -> impl Future<Output = Infallible> + use<> {
        let (env, queue) = (self.env.clone(), Arc::clone(&self.queue));
        let (window, shipper) = (Arc::clone(&self.window), Arc::clone(&self.shipper));
        async move {
            tokio::select! {
                never = ship(&env, &queue, &window, &shipper) => never,
                never = sync_records(&queue) => never,
                never = rotate_files(&queue) => never,
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

    /// Waits for the end of the listeners, closes the queue, and waits until all of it is acknowledged. [`Self::run`] goes on
    /// meanwhile.
    pub(crate) async fn drain(&mut self, time: Duration) {
        (&mut self.listeners).await;
        let queue = Arc::clone(&self.queue);
        let _ = spawn_blocking(move || queue.close()).await;
        let drained = async {
            loop {
                let is_drained = {
                    let mut shipper = lock(&self.shipper);
                    shipper.step(self.env.clock.uptime());
                    shipper.is_drained()
                };
                if is_drained {
                    return;
                }
                sleep(DRAIN_INTERVAL).await;
            }
        };
        // The next start ships the rest.
        let _ = timeout(time, drained).await;
    }

    /// Records dropped because the queue was full, and segments that wait for the next start.
    pub(crate) fn backlog(&self) -> (u64, u64) {
        let mut shipper = lock(&self.shipper);
        shipper.commit_acked();
        (shipper.dropped_records(), shipper.waiting_segments() as u64)
    }
}

/// Ships what is appended, as soon as it is and the window has space.
async fn ship(env: &Env, queue: &Queue, window: &SendWindow, shipper: &Mutex<QueueShipper>) -> Infallible {
    let mut next_tick = Duration::ZERO;
    loop {
        let (now, seen) = (env.clock.uptime(), queue.appends());
        let interval = {
            let mut shipper = lock(shipper);
            if now >= next_tick {
                queue.tick();
            }
            shipper.step(now);
            match (queue.is_halted(), shipper.is_idle()) {
                (true, _) => TICK_WHEN_HALTED,
                (_, true) => TICK_WHEN_IDLE,
                (_, false) => TICK,
            }
        };
        if now >= next_tick {
            next_tick = now + interval;
        }
        // An interval that has become shorter counts from now.
        next_tick = next_tick.min(now + interval);
        let has_space = window.has_space();
        tokio::select! {
            // Also without space, because the queue has a limit.
            () = queue.wait_appended(seen) => {}
            () = window.wait_for_space(), if !has_space => {}
            () = sleep(next_tick.saturating_sub(now)) => {}
        }
    }
}

/// Syncs records whose senders wait for that.
async fn sync_records(queue: &Arc<Queue>) -> Infallible {
    loop {
        queue.wait_unsynced().await;
        let queue = Arc::clone(queue);
        // A panic in it is a bug, after which nothing `durable` is acknowledged.
        let _ = spawn_blocking(move || queue.commit_group()).await;
    }
}

/// Prepares and renames the files of such records.
async fn rotate_files(queue: &Arc<Queue>) -> Infallible {
    loop {
        queue.wait_rotation().await;
        let queue = Arc::clone(queue);
        // A panic in it is a bug, after which files keep their names.
        let _ = spawn_blocking(move || queue.rotate_files()).await;
    }
}
