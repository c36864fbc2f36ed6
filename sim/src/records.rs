//! Which records there are: on shelves and in queues of nodes that are up, and on the disks of those that are not.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bucksaw_doors::{File, Fs as _, sim};
use bucksaw_ingest::View;
use bucksaw_node::Node;
use bucksaw_record::Id;
use bucksaw_segment::queue::{HEADER_LEN, read_header, survey};
use bucksaw_segment::shelf::Reader;
use bucksaw_segment::{Block, Chunk};

/// Records of one block or file.
pub(crate) type Records = Vec<(Id, Arc<str>)>;

/// What was read, and whether that is all: damage and failing disks are told of.
#[derive(Debug, Default)]
pub(crate) struct Found {
    parts: Vec<Arc<Records>>,
    pub(crate) is_partial: bool,
}

impl Found {
    fn add(&mut self, read: Option<Arc<Records>>) {
        self.is_partial |= read.is_none();
        self.parts.extend(read);
    }

    /// The records, in no order, and as often as they were found.
    pub(crate) fn records(&self) -> impl Iterator<Item = (Id, Arc<str>)> {
        self.parts.iter().flat_map(|part| part.iter()).map(|(id, text)| (*id, Arc::clone(text)))
    }
}

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
        *self.read() = Read::default();
    }

    /// All on the shelf of a node.
    pub(crate) fn stored(&self, node: &Node) -> Found {
        let mut found = Found { is_partial: !node.shelf.set_aside().is_empty(), ..Found::default() };
        for segment in node.shelf.segments().iter() {
            for block in 0..segment.footer().blocks.len() {
                found.add(self.block(segment.id(), block, || segment.block(block).ok()));
            }
        }
        found
    }

    /// All on the shelf of a node, also while its disk cannot be read.
    pub(crate) fn held(&self, node: &Node, disk: &sim::Fs) -> Found {
        let found = self.stored(node);
        if found.is_partial { self.stored_on_disk(disk) } else { found }
    }

    /// All on the shelf of a machine that is down.
    pub(crate) fn stored_on_disk(&self, disk: &sim::Fs) -> Found {
        let mut found = Found::default();
        let shelf = Path::new(crate::machine::DIR).join("shelf");
        let is_segment =
            |path: &Path| path.parent() == Some(&shelf) && path.extension().is_some_and(|end| end == "seg");
        for path in disk.paths().iter().filter(|path| is_segment(path)) {
            let Some(reader) = look_into(disk, path).and_then(|file| Reader::open(file, path).ok()) else {
                found.is_partial = true;
                continue;
            };
            for block in 0..reader.footer().blocks.len() {
                found.add(self.block(reader.id(), block, || reader.block(block).ok()));
            }
        }
        found
    }

    fn block(&self, id: Id, block: usize, read: impl Fn() -> Option<Block>) -> Option<Arc<Records>> {
        let known = self.read().blocks.get(&(id, block)).cloned();
        known.or_else(|| {
            let mut records = Records::new();
            read()?.chunks().for_each(|chunk| note(&chunk, &mut records));
            let records = Arc::new(records);
            self.read().blocks.insert((id, block), Arc::clone(&records));
            Some(records)
        })
    }

    /// All that can be read in the queue of a node, also what it has let go of and still shows.
    pub(crate) fn queued(&self, node: &Node) -> Found {
        let mut found = Found { is_partial: !node.queue.damaged().is_empty(), ..Found::default() };
        for segment in node.queue.readable() {
            let view = segment.view();
            let known = self.read().queued.get(&view.id).filter(|(end, _)| *end == view.end).cloned();
            let records = known.map(|(_, records)| records).or_else(|| {
                let records = Arc::new(of_view(&view)?);
                self.read().queued.insert(view.id, (view.end, Arc::clone(&records)));
                Some(records)
            });
            found.add(records);
        }
        found
    }

    fn read(&self) -> MutexGuard<'_, Read> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of a file, looked at from outside: neither a limit of handles nor a disk that fails for a while is in the way.
#[derive(Debug)]
struct Bytes(Vec<u8>);

impl File for Bytes {
    fn append(&self, _: &[&[u8]]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let from = usize::try_from(offset).ok().and_then(|offset| self.0.get(offset..));
        from.unwrap_or_default().read(buffer)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn look_into(disk: &sim::Fs, path: &Path) -> Option<Arc<dyn File>> {
    Some(Arc::new(Bytes(disk.live_bytes(path)?)))
}

/// What lies in files of a queue that were set aside, and that the node tells of.
pub(crate) fn told_aside(node: &Node, disk: &sim::Fs) -> BTreeSet<Id> {
    let queue = Path::new(crate::machine::DIR).join("queue");
    node.queue.damaged().into_iter().flat_map(|name| ids_of_file(disk, queue.join(name)).unwrap_or_default()).collect()
}

/// The records in a segment on a disk that can be read.
pub(crate) fn of_segment(disk: &sim::Fs, path: &Path) -> BTreeSet<Id> {
    let Some(reader) = disk.open(path).ok().and_then(|file| Reader::open(file, path).ok()) else {
        return BTreeSet::new();
    };
    let mut records = Records::new();
    for block in (0..reader.footer().blocks.len()).filter_map(|block| reader.block(block).ok()) {
        block.chunks().for_each(|chunk| note(&chunk, &mut records));
    }
    records.into_iter().map(|(id, _)| id).collect()
}

/// What lies in the queue on a disk, and stores have not said that they keep.
pub(crate) fn waiting_on_disk(disk: &sim::Fs) -> BTreeSet<Id> {
    let queue = Path::new(crate::machine::DIR).join("queue");
    let waits = |path: &PathBuf| {
        path.starts_with(&queue) && path.extension().is_some_and(|end| end == "active" || end == "pending")
    };
    disk.paths().into_iter().filter(waits).flat_map(|path| ids_of_file(disk, path).unwrap_or_default()).collect()
}

/// The ids in a file of a queue; `None` when it cannot be read.
pub(crate) fn ids_of_file(disk: &sim::Fs, path: PathBuf) -> Option<Vec<Id>> {
    let file = look_into(disk, &path)?;
    let id = read_header(&*file, &path).ok()?;
    let found = survey(&file, &path, id).ok()?;
    Some(of_view(&View::of_survey(id, file, path, found))?.into_iter().map(|(id, _)| id).collect())
}

/// `None` when it cannot be read.
fn of_view(view: &View) -> Option<Records> {
    let mut all = Records::new();
    let (places, _) = view.places().ok()?;
    let mut frames = view.frames(HEADER_LEN as u64);
    for place in places {
        frames.seek(place.at);
        note(&frames.next_chunk().ok()??, &mut all);
    }
    Some(all)
}

fn note(chunk: &Chunk<'_>, all: &mut Records) {
    for (row, record) in (0..).zip(chunk.records()) {
        if let Some(id) = chunk.rows.id(row) {
            all.push((id, String::from_utf8_lossy(record).into()));
        }
    }
}
