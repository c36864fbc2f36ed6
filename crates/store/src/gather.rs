//! Gathering: what waits in the queue becomes one segment on the shelf.
//!
//! It is packed for good at once, so that this is done once, but quickly where that would be in vain or too slow: when it is
//! too little to stay as it is, when a client waits, or when the store is behind. A burst leaves the queue, which a power cut
//! could take, as fast as it comes; what was packed quickly is packed anew when there is time.

use std::io;

use bucksaw_ingest::{Backlog, Queue, View};
use bucksaw_record::{Id, Millis, Producer};
use bucksaw_segment::shelf::{Origin, Writer};
use bucksaw_segment::{Codec, ReadError};
use tracing::{debug, error};

use crate::aside::Turns;
use crate::merge::{Merge, MergeError, Output};
use crate::shelf::{Draft, Shelf, StoreError, lock};
use crate::unit::{InputError, Inputs};

/// How often a queue segment may fail to be read before it is set aside, so that it does not hold up the others.
const READS_MAX: u32 = 5;

/// The store is behind when more waits than so many gatherings take, or for so many times the age at which it is gathered.
const BEHIND_SEGMENTS: u64 = 4;
const BEHIND_AGES: u32 = 2;

/// All of a gathering goes into one file.
struct Single(Draft);

impl Output for Single {
    fn writer(&mut self) -> io::Result<&mut Writer> {
        Ok(&mut self.0.writer)
    }
}

impl Shelf {
    /// Whether [`Self::gather`] would take something now. Costs next to nothing.
    #[must_use]
    pub fn is_gathering_due(&self, queue: &Queue, all: bool) -> bool {
        self.is_due(&queue.backlog(), all)
    }

    fn is_due(&self, backlog: &Backlog, all: bool) -> bool {
        self.debt.set_queued(backlog.text_bytes);
        let due = backlog.text_bytes >= self.config.segment_bytes || backlog.oldest >= self.config.gather_age;
        backlog.segments > 0 && (due || backlog.awaited || all)
    }

    /// Gathers once, when enough waits, or waits long enough, or somebody waits for it, or `all` is wanted. Returns the
    /// bytes of text taken from the queue; 0 when there was nothing to do. For one thread at a time.
    ///
    /// # Errors
    /// [`StoreError`]; the queue has its segments back then, and a later call tries again.
    pub fn gather(&self, queue: &Queue, all: bool) -> Result<u64, StoreError> {
        let backlog = queue.backlog();
        if !self.is_due(&backlog, all) {
            return Ok(0);
        }
        // What is taken should fit even where it cannot be packed. Half of the room: the last segment goes beyond it.
        let room = self.doors.fs.space(&self.dir).map_or(u64::MAX, |space| space.free_bytes);
        let views = queue.reserve(self.config.segment_bytes.min(room / 2).max(1));
        let ids: Vec<Id> = views.iter().map(|view| view.id).collect();
        let text_bytes: u64 = views.iter().map(|view| view.reach.text_bytes).sum();
        let is_pressed = || {
            self.debt.set_queued(queue.backlog().text_bytes + text_bytes);
            // What is on the shelf takes less room than in the queue.
            queue.is_full() || self.is_pressed()
        };
        // A client that waits is owed no less than one that asks.
        let turns =
            if backlog.awaited { self.gather_aside.begin_awaited() } else { self.gather_aside.begin(&is_pressed) };
        let behind = backlog.text_bytes >= BEHIND_SEGMENTS * self.config.segment_bytes
            || backlog.oldest >= BEHIND_AGES * self.config.gather_age;
        let quick = backlog.awaited || behind || text_bytes < self.config.full_block();
        let stored = self.store(&views, if quick { self.config.codec_quick } else { self.config.codec_final }, &turns);
        match stored {
            Ok(()) => {
                queue.commit(&ids);
                self.debt.set_queued(queue.backlog().text_bytes);
                self.metrics.gathered_bytes.inc_by(text_bytes);
                debug!(segments = views.len(), text_bytes, "gathered from the queue");
                Ok(text_bytes)
            }
            Err(failed) => {
                self.metrics.gather_failed.inc();
                if let StoreError::Input { segment, source } = &failed {
                    self.unreadable(queue, *segment, source);
                }
                queue.release(&ids);
                Err(failed)
            }
        }
    }

    fn store(&self, views: &[View], codec: Codec, turns: &Turns<'_>) -> Result<(), StoreError> {
        let (mut inputs, mut units) = (Inputs::default(), Vec::new());
        for view in views {
            inputs.add_queue(view, &mut units).map_err(input_error)?;
        }
        if units.is_empty() {
            return Ok(());
        }
        let origin = Origin { sources: views.iter().map(|view| view.id).collect(), keys: keys(&units), merge: None };
        let merge = Merge { block_bytes: self.config.full_block(), codec, quick: None, turns, stopped: &|| false };
        let mut output = Single(self.draft().map_err(StoreError::io("create a file in", &self.dir))?);
        let path = output.0.path.clone();
        if let Err(failed) = merge.run(inputs, units, &mut output) {
            self.discard(&path);
            return Err(merge_error(failed, &path));
        }
        let sealed = self.seal(output.0, origin)?;
        let stored = self.settle(&[sealed])?;
        self.replace(&stored, &[]);
        Ok(())
    }

    /// A queue segment that cannot be read is looked through for its whole frames; when even that fails for some time, it
    /// is set aside.
    fn unreadable(&self, queue: &Queue, segment: Id, error: &ReadError) {
        let mut unreadable = lock(&self.unreadable);
        let tries = unreadable.entry(segment).or_default();
        *tries += 1;
        if *tries < READS_MAX && queue.inspect(segment).is_ok() {
            return;
        }
        if *tries >= READS_MAX {
            error!(%segment, %error, "a queue segment cannot be read: it is set aside as damaged");
            queue.quarantine(segment);
            unreadable.remove(&segment);
        }
    }
}

/// The keyed batches among the frames.
fn keys(units: &[crate::unit::Unit]) -> Vec<(Producer, Millis)> {
    let mut keys: Vec<(Producer, Millis)> = units.iter().filter_map(crate::unit::Unit::key).collect();
    keys.sort_unstable();
    keys.dedup_by_key(|(producer, _)| *producer);
    keys
}

pub(crate) fn input_error(failed: InputError) -> StoreError {
    StoreError::Input { segment: failed.segment, source: failed.source }
}

pub(crate) fn merge_error(failed: MergeError, path: &std::path::Path) -> StoreError {
    match failed {
        MergeError::Input(failed) => input_error(failed),
        MergeError::Output(source) => StoreError::io("write", path)(source),
        MergeError::Stopped => StoreError::Stopped,
    }
}
