//! Which records there are: on shelves and in queues of nodes that are up, and on the disks of those that are not.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bucksaw_doors::{Fs as _, sim};
use bucksaw_ingest::View;
use bucksaw_node::Node;
use bucksaw_record::Id;
use bucksaw_segment::shelf::Reader;
use bucksaw_segment::{Block, Chunk};

/// Records by id.
pub(crate) type Records = BTreeMap<Id, Arc<str>>;

/// Remembers what was read of one machine, for files never change but by faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cache(Arc<Mutex<Read>>);

#[derive(Debug, Default)]
struct Read {
    blocks: BTreeMap<(Id, usize), Arc<Records>>,
    queued: BTreeMap<Id, (u64, Arc<Records>)>,
}

impl Cache {
    /// Something on the disk was changed from outside.
    pub(crate) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Read::default();
    }

    /// All on the shelf of a node. Blocks that cannot be read are told of by the shelf.
    pub(crate) fn stored(&self, node: &Node) -> Records {
        let mut all = Records::new();
        for segment in node.shelf.segments().iter() {
            for block in 0..segment.footer().blocks.len() {
                let read = || segment.block(block).ok();
                self.block(segment.id(), block, read, &mut all);
            }
        }
        all
    }

    /// All on the shelf of a machine that is down.
    pub(crate) fn stored_on_disk(&self, disk: &sim::Fs) -> Records {
        let mut all = Records::new();
        let shelf = Path::new(crate::machine::DIR).join("shelf");
        let is_segment = |path: &Path| path.parent() == Some(&shelf) && path.extension().is_some_and(|end| end == "seg");
        for path in disk.paths().iter().filter(|path| is_segment(path)) {
            let Some(reader) = disk.open(path).ok().and_then(|file| Reader::open(file, path).ok()) else { continue };
            for block in 0..reader.footer().blocks.len() {
                self.block(reader.id(), block, || reader.block(block).ok(), &mut all);
            }
        }
        all
    }

    fn block(&self, id: Id, block: usize, read: impl Fn() -> Option<Block>, all: &mut Records) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).blocks.get(&(id, block)).cloned();
        let records = match known {
            Some(records) => records,
            None => {
                let Some(read) = read() else { return };
                let mut records = Records::new();
                read.chunks().for_each(|chunk| note(&chunk, &mut records));
                let records = Arc::new(records);
                let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                cache.blocks.insert((id, block), Arc::clone(&records));
                records
            }
        };
        all.extend(records.iter().map(|(id, text)| (*id, Arc::clone(text))));
    }

    /// All that can be read in the queue of a node, also what it has let go of and still shows.
    pub(crate) fn queued(&self, node: &Node) -> Records {
        let mut all = Records::new();
        for segment in node.queue.readable() {
            let view = segment.view();
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).queued.get(&view.id).cloned();
            let records = match known.filter(|(end, _)| *end == view.end) {
                Some((_, records)) => records,
                None => {
                    let mut records = Records::new();
                    read(&view, &mut records);
                    let records = Arc::new(records);
                    let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                    cache.queued.insert(view.id, (view.end, Arc::clone(&records)));
                    records
                }
            };
            all.extend(records.iter().map(|(id, text)| (*id, Arc::clone(text))));
        }
        all
    }
}

fn read(view: &View, all: &mut Records) {
    let Ok((places, _)) = view.places() else { return };
    let mut frames = view.frames(bucksaw_segment::queue::HEADER_LEN as u64);
    for place in places {
        frames.seek(place.at);
        if let Ok(Some(chunk)) = frames.next_chunk() {
            note(&chunk, all);
        }
    }
}

fn note(chunk: &Chunk<'_>, all: &mut Records) {
    for (row, record) in (0..).zip(chunk.records()) {
        if let Some(id) = chunk.rows.id(row) {
            all.insert(id, String::from_utf8_lossy(record).into());
        }
    }
}
