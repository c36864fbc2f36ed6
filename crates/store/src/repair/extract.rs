//! Some records of the shelf as a segment of their own, to be sent to others. It is never shown here.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bucksaw_segment::shelf::{Origin, Reader, Writer};

use super::ids::Ids;
use super::window::Window;
use crate::gather::merge_error;
use crate::merge::{Merge, Output};
use crate::shelf::{Draft, Shelf, StoreError};
use crate::stored::Stored;
use crate::unit::{Inputs, Unit};

/// A segment that goes, with its file, when this is dropped.
#[derive(Debug)]
pub(crate) struct Extract {
    pub(crate) stored: Arc<Stored>,
    _file: Leftover,
}

/// A file that is removed. Its name says that it means nothing after a restart.
#[derive(Debug)]
struct Leftover {
    shelf: Arc<Shelf>,
    path: PathBuf,
}

impl Drop for Leftover {
    fn drop(&mut self) {
        self.shelf.discard(&self.path);
    }
}

struct Single(Draft);

impl Output for Single {
    fn writer(&mut self) -> io::Result<&mut Writer> {
        Ok(&mut self.0.writer)
    }
}

impl Shelf {
    /// Makes a segment of some records of a window; `None` when none of them is here any more.
    ///
    /// # Errors
    /// [`StoreError`]; nothing is left of it then.
    pub(crate) fn extract(self: &Arc<Self>, window: Window, ids: &Arc<Ids>) -> Result<Option<Extract>, StoreError> {
        let is_pressed = || self.is_pressed();
        let turns = &self.repair_aside.begin(&is_pressed);
        let (mut units, mut text_bytes) = (Vec::new(), 0.0);
        for segment in self.segments().iter() {
            for (block, entry) in self.touched(segment, window) {
                if !ids.producers().any(|producer| entry.reach.may_hold(producer)) {
                    continue;
                }
                let rows = segment.rows(block);
                let rows = rows.map_err(|source| StoreError::Input { segment: segment.id(), source })?;
                let runs = rows.iter().flat_map(|rows| &rows.runs).filter(|run| window.contains(run.first));
                let wanted: u64 = runs.map(|run| ids.count_in(run)).sum();
                if wanted > 0 {
                    units.extend(Unit::some_block(segment, block, wanted == entry.reach.records));
                    text_bytes += entry.reach.text_bytes as f64 * wanted as f64 / entry.reach.records.max(1) as f64;
                }
            }
        }
        if units.is_empty() {
            return Ok(None);
        }
        let stays = text_bytes >= self.config.full_block() as f64;
        let codec = if stays { self.config.codec_final } else { self.config.codec_quick };
        let block_bytes = self.config.full_block();
        let merge = Merge { block_bytes, codec, quick: None, turns, stopped: &|| false };
        let draft = self.draft().map_err(StoreError::io("create a file in", &self.dir))?;
        let file = Leftover { shelf: Arc::clone(self), path: draft.path.clone() };
        let mut output = Single(draft);
        let inputs = Inputs::only(window, Arc::clone(ids));
        merge.run(inputs, units, &mut output).map_err(|failed| merge_error(failed, &file.path))?;
        // It says nothing of the queue segments that its records come from: it does not have all that they had.
        output.0.writer.seal(Origin::default()).map_err(StoreError::io("write", &file.path))?;
        let opened = self.doors.fs.open(&file.path).map_err(StoreError::io("open", &file.path))?;
        let reader = Reader::open(opened, &file.path).map_err(StoreError::Written)?;
        Ok(Some(Extract { stored: Arc::new(Stored::new(reader)), _file: file }))
    }
}
