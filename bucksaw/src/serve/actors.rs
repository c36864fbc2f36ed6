//! The node's own threads: group commit, the clock's tick, gathering, compaction and retention.
//!
//! They are one group: when one ends, all are stopped, and the group waits for all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bucksaw_ingest::Queue;
use bucksaw_store::{Shelf, StoreError};
use tokio::sync::watch;
use tracing::error;

use super::priority;

/// How often the queue looks at the time.
const TICK: Duration = Duration::from_millis(100);

/// How often the store looks whether there is something to gather.
const GATHER_LOOK: Duration = Duration::from_millis(50);

/// How often retention and compaction are looked at when there is nothing to do.
const TIDY_LOOK: Duration = Duration::from_secs(1);

/// How long work that failed is left alone.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// The threads.
pub(super) struct Actors {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<bool>>,
    ended: watch::Receiver<bool>,
}

impl Actors {
    pub(super) fn start(queue: &Arc<Queue>, shelf: &Arc<Shelf>) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, ended) = watch::channel(false);
        let tell = Arc::new(tell);
        let mut actors = Self { stop: Arc::clone(&stop), threads: Vec::new(), ended };
        let parts = || (Arc::clone(queue), Arc::clone(shelf), Arc::clone(&stop));
        let (q, _, s) = parts();
        actors.spawn("commit", &tell, move || commit(&q, &s))?;
        let (q, _, s) = parts();
        actors.spawn("tick", &tell, move || tick(&q, &s))?;
        let (q, h, s) = parts();
        actors.spawn("gather", &tell, move || gather(&q, &h, &s))?;
        let (q, h, s) = parts();
        actors.spawn("tidy", &tell, move || tidy(&q, &h, &s))?;
        Ok(actors)
    }

    fn spawn(
        &mut self,
        name: &'static str,
        tell: &Arc<watch::Sender<bool>>,
        work: impl FnOnce() + Send + 'static,
    ) -> anyhow::Result<()> {
        let tell = Arc::clone(tell);
        let body = move || {
            let sound = catch_unwind(AssertUnwindSafe(work)).is_ok();
            if !sound {
                error!(actor = name, "a part of the node failed by a bug: the node stops");
            }
            // Nobody listens any more once the node is stopping.
            let _ = tell.send(true);
            sound
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
        self.threads.push(thread.with_context(|| format!("cannot start the thread {name}"))?);
        Ok(())
    }

    /// Resolves when one of them has ended.
    pub(super) async fn ended(&mut self) {
        let _ = self.ended.wait_for(|ended| *ended).await;
    }

    /// Ends them all, and waits.
    ///
    /// # Errors
    /// When one had failed.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let sound =
            self.threads.into_iter().map(|thread| thread.join().unwrap_or(false)).filter(|sound| !sound).count();
        if sound > 0 {
            bail!("a part of the node failed by a bug: its log says more");
        }
        Ok(())
    }
}

fn is_stopping(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

/// Sleeps, in short steps, so that a stop need not wait for long.
fn rest(time: Duration, stop: &AtomicBool) {
    let mut left = time;
    while !left.is_zero() && !is_stopping(stop) {
        let step = left.min(TICK);
        std::thread::sleep(step);
        left -= step;
    }
}

fn commit(queue: &Queue, stop: &AtomicBool) {
    while !is_stopping(stop) {
        queue.wait_group(TICK);
        queue.commit_group();
    }
}

fn tick(queue: &Queue, stop: &AtomicBool) {
    while !is_stopping(stop) {
        queue.tick();
        std::thread::sleep(TICK);
    }
}

fn gather(queue: &Queue, shelf: &Shelf, stop: &AtomicBool) {
    while !is_stopping(stop) {
        if !shelf.is_gathering_due(queue, false) {
            rest(GATHER_LOOK, stop);
            continue;
        }
        match modestly(shelf, || shelf.gather(queue, false)) {
            Ok(0) => rest(GATHER_LOOK, stop),
            Ok(_) => {}
            Err(error) => {
                error!(%error, "cannot take records from the queue to the store: it is tried again");
                rest(AFTER_FAILURE, stop);
            }
        }
    }
}

fn tidy(queue: &Queue, shelf: &Shelf, stop: &AtomicBool) {
    while !is_stopping(stop) {
        shelf.retain(queue.is_full());
        match modestly(shelf, || shelf.compact(&|| is_stopping(stop))) {
            Ok(0) => rest(TIDY_LOOK, stop),
            Ok(_) | Err(StoreError::Stopped) => {}
            Err(error) => {
                error!(%error, "cannot merge segments: it is tried again");
                rest(AFTER_FAILURE * 10, stop);
            }
        }
    }
}

/// Work that nobody waits for goes on at a lower priority, unless too much of it has piled up.
fn modestly<T: Send>(shelf: &Shelf, work: impl Fn() -> T + Sync) -> T {
    if shelf.is_pressed() { work() } else { priority::lower(work) }
}
