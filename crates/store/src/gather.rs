//! Gathering: what waits in the queue becomes one segment on the shelf.
//!
//! It is packed for good at once, so that this is done once, but quickly where that would be in vain or too slow: when it is
//! too little to stay as it is, when a client waits, or when the store is behind. A burst leaves the queue, which a power cut
//! could take, as fast as it comes; what was packed quickly is packed anew when there is time. Where room is short it is
//! packed for good in any case: quick packing takes up to three times the room.

use std::io;
use std::sync::Arc;

use bucksaw_ingest::{Backlog, Due, Queue, View};
use bucksaw_record::Id;
use bucksaw_segment::Codec;
use bucksaw_segment::shelf::{Origin, Writer};
use tracing::debug;

use crate::aside::Turns;
use crate::merge::{Merge, MergeError, Output};
use crate::shelf::{Draft, Shelf, StoreError};
use crate::stored::Stored;
use crate::unit::{InputError, Inputs};

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
    /// When what waits in a queue is worth being gathered.
    #[must_use]
    pub fn due(&self) -> Due {
        Due { text_bytes: self.config.gathered(), age: self.config.gather_age }
    }

    /// Whether [`Self::gather`] would take something now. Costs next to nothing.
    #[must_use]
    pub fn is_gathering_due(&self, queue: &Queue, all: bool) -> bool {
        self.is_due(&queue.backlog(), all)
    }

    fn is_due(&self, backlog: &Backlog, all: bool) -> bool {
        self.debt.set_queued(backlog.text_bytes);
        backlog.segments > 0 && (all || self.due().is_met(backlog))
    }

    /// Gathers once from the queue of this node, of what nobody else has a copy: when enough waits, or waits long enough,
    /// or somebody waits for it, or `all` is wanted. Returns the bytes of text taken from the queue; 0 when there was
    /// nothing to do. For one thread at a time.
    ///
    /// # Errors
    /// [`StoreError`]; the queue has its segments back then, and a later call tries again.
    pub fn gather(&self, queue: &Queue, all: bool) -> Result<u64, StoreError> {
        let backlog = queue.backlog();
        if !self.is_due(&backlog, all) {
            return Ok(0);
        }
        let views = queue.reserve(self.room_for_gathering());
        let ids: Vec<Id> = views.iter().map(|view| view.id).collect();
        match self.pack(&views, backlog, Some(queue)) {
            Ok(packed) => {
                queue.commit(&ids);
                self.debt.set_queued(queue.backlog().text_bytes);
                Ok(packed.text_bytes)
            }
            Err(failed) => {
                if let StoreError::Input { segment, .. } = &failed {
                    queue.unreadable(*segment);
                }
                queue.release(&ids);
                Err(failed)
            }
        }
    }

    /// Makes one segment of what was taken, durable and shown. `backlog` is what waited before it was taken, and `queue`
    /// that of this node, if it has one.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is left of it then.
    pub(crate) fn pack(&self, views: &[View], backlog: Backlog, queue: Option<&Queue>) -> Result<Packed, StoreError> {
        let text_bytes: u64 = views.iter().map(|view| view.reach.text_bytes).sum();
        let is_pressed = || {
            let waits = queue.map_or(0, |queue| queue.backlog().text_bytes);
            self.debt.set_queued(waits + text_bytes);
            // What is on the shelf takes less room than in the queue.
            queue.is_some_and(Queue::is_full) || self.is_pressed()
        };
        // A client that waits is owed no less than one that asks.
        let turns =
            if backlog.awaited { self.gather_aside.begin_awaited() } else { self.gather_aside.begin(&is_pressed) };
        let behind = backlog.text_bytes >= BEHIND_SEGMENTS * self.config.gathered()
            || backlog.oldest >= BEHIND_AGES * self.config.gather_age;
        let small = text_bytes < self.config.full_block();
        let quick = (backlog.awaited || behind || small) && !self.is_tight(text_bytes);
        let codec = if quick { self.config.codec_quick } else { self.config.codec_final };
        match self.merge_views(views, codec, &turns) {
            Ok(stored) => {
                self.metrics.gathered_bytes.inc_by(text_bytes);
                self.batch.grow(text_bytes);
                debug!(segments = views.len(), text_bytes, "gathered from the queue");
                Ok(Packed { text_bytes, stored })
            }
            Err(failed) => {
                self.metrics.gather_failed.inc();
                if failed.is_no_room() {
                    self.batch.shrink(text_bytes);
                }
                Err(failed)
            }
        }
    }

    fn merge_views(&self, views: &[View], codec: Codec, turns: &Turns<'_>) -> Result<Option<Arc<Stored>>, StoreError> {
        let (mut inputs, mut units) = (Inputs::default(), Vec::new());
        for view in views {
            inputs.add_queue(view, &mut units).map_err(input_error)?;
        }
        if units.is_empty() {
            return Ok(None);
        }
        let origin = Origin { sources: views.iter().map(|view| view.id).collect(), ..Origin::default() };
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
        Ok(stored.into_iter().next())
    }
}

/// What was made of what was taken.
pub(crate) struct Packed {
    /// Bytes of text.
    pub(crate) text_bytes: u64,
    /// The segment; `None` when there were no records.
    pub(crate) stored: Option<Arc<Stored>>,
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
