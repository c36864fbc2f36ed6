//! Reads the records of a machine: from the store and queue of a running node, or from the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use bucksaw_env::{File, FileKeys, FileStat, lock, sim};
use bucksaw_ingest::SegmentView;
use bucksaw_node::Node;
use bucksaw_record::{Id, RecordView};
use bucksaw_segment::queue::{HEADER_LEN, read_header, scan_segment};
use bucksaw_segment::stored::{Reader, SearchableBlock};
use bucksaw_segment::{Block, Chunk};
#[cfg(test)]
use bucksaw_store::StoredSegment;

use crate::disk_keys;
use crate::record_attributes::checked_line;

/// Records of one block or file.
pub(crate) type RecordTexts = Vec<(Id, Arc<str>)>;

/// Records that were read. Damage and failing reads make them partial.
#[derive(Debug, Default)]
pub(crate) struct RecordsRead {
    parts: Vec<Arc<RecordTexts>>,
    pub(crate) is_partial: bool,
}

impl RecordsRead {
    fn add(&mut self, read: Option<Arc<RecordTexts>>) {
        self.is_partial |= read.is_none();
        self.parts.extend(read);
    }

    /// The records in any order, duplicates included.
    pub(crate) fn records(&self) -> impl Iterator<Item = (Id, Arc<str>)> {
        self.parts.iter().flat_map(|part| part.iter()).map(|(id, text)| (*id, Arc::clone(text)))
    }
}

/// Caches the records of one machine. Files change only by faults.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordCache(Arc<Mutex<CachedRecords>>);

#[derive(Debug, Default)]
struct CachedRecords {
    blocks: BTreeMap<(Id, usize), Arc<RecordTexts>>,
    queued: BTreeMap<Id, (u64, Arc<RecordTexts>)>,
}

impl RecordCache {
    /// Called after a fault has changed the disk.
    pub(crate) fn clear(&self) {
        *self.lock() = CachedRecords::default();
    }

    /// The records in the store of a running node.
    pub(crate) fn stored(&self, node: &Node) -> RecordsRead {
        let Some(replication) = &node.replication else { return RecordsRead::default() };
        let is_partial = !replication.store.quarantined_files().is_empty();
        let mut found = RecordsRead { is_partial, ..RecordsRead::default() };
        for segment in replication.store.segments().iter() {
            for block in 0..segment.footer().blocks.len() {
                found.add(self.block(segment.id(), block, || segment.block(block).ok()));
            }
        }
        found
    }

    /// The records in the store of a running node, also while its reads fail.
    pub(crate) fn held(&self, node: &Node, disk: &sim::Fs) -> RecordsRead {
        let found = self.stored(node);
        if found.is_partial { self.stored_on_disk(disk) } else { found }
    }

    /// The records in the store of a machine that is down.
    pub(crate) fn stored_on_disk(&self, disk: &sim::Fs) -> RecordsRead {
        let mut found = RecordsRead::default();
        for path in stored_segment_paths(disk) {
            let Some(reader) = open_snapshot(disk, &path).and_then(|file| Reader::open(file, &path).ok()) else {
                found.is_partial = true;
                continue;
            };
            for block in 0..reader.footer().blocks.len() {
                found.add(self.block(reader.id(), block, || reader.block(block).ok()));
            }
        }
        found
    }

    fn block(&self, id: Id, block: usize, read: impl Fn() -> Option<Block>) -> Option<Arc<RecordTexts>> {
        let known = self.lock().blocks.get(&(id, block)).cloned();
        known.or_else(|| {
            let mut records = RecordTexts::new();
            read()?.chunks().for_each(|chunk| collect_records(&chunk, &mut records));
            let records = Arc::new(records);
            self.lock().blocks.insert((id, block), Arc::clone(&records));
            Some(records)
        })
    }

    /// The records in the queue of a running node, committed ones that are still readable included.
    pub(crate) fn queued(&self, node: &Node) -> RecordsRead {
        let mut found =
            RecordsRead { is_partial: !node.queue.damaged_file_names().is_empty(), ..RecordsRead::default() };
        node.queue.readable_segments().iter().for_each(|segment| found.add(self.queue_segment(&segment.view())));
        found
    }

    /// The records in the queue of a running node that it has not committed.
    #[cfg(test)]
    pub(crate) fn uncommitted(&self, node: &Node) -> RecordsRead {
        let mut found = RecordsRead::default();
        node.queue.uncommitted_segments().iter().for_each(|view| found.add(self.queue_segment(view)));
        found
    }

    fn queue_segment(&self, view: &SegmentView) -> Option<Arc<RecordTexts>> {
        let known = self.lock().queued.get(&view.id).filter(|(end, _)| *end == view.end).cloned();
        known.map(|(_, records)| records).or_else(|| {
            let records = Arc::new(view_records(view)?);
            self.lock().queued.insert(view.id, (view.end, Arc::clone(&records)));
            Some(records)
        })
    }

    fn lock(&self) -> MutexGuard<'_, CachedRecords> {
        lock(&self.0)
    }
}

/// The bytes of a file, read without handle limits and read faults, and the keys of encrypted disks.
#[derive(Debug)]
struct SnapshotFile(Vec<u8>, Option<Arc<dyn FileKeys>>);

impl File for SnapshotFile {
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

    fn stat(&self) -> io::Result<FileStat> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn keys(&self) -> Option<Arc<dyn FileKeys>> {
        self.1.clone()
    }
}

fn open_snapshot(disk: &sim::Fs, path: &Path) -> Option<Arc<dyn File>> {
    Some(Arc::new(SnapshotFile(disk.live_bytes(path)?, disk_keys::reading_keys())))
}

/// The ids in quarantined queue files that the node reports.
pub(crate) fn reported_damaged_ids(node: &Node, disk: &sim::Fs) -> BTreeSet<Id> {
    let queue = Path::new(crate::settings::DIR).join("queue");
    node.queue
        .damaged_file_names()
        .into_iter()
        .flat_map(|name| queue_file_ids(disk, queue.join(name)).unwrap_or_default())
        .collect()
}

/// The ids of each columnar block of the store on a disk.
pub(crate) fn columnar_blocks(disk: &sim::Fs) -> Vec<BTreeSet<Id>> {
    let readers = stored_segment_paths(disk).into_iter().filter_map(|path| {
        let file = open_snapshot(disk, &path)?;
        Reader::open(file, &path).ok()
    });
    let mut blocks = Vec::new();
    for reader in readers {
        for block in 0..reader.footer().blocks.len() {
            if !matches!(reader.searchable_block(block), Ok(SearchableBlock::Columns(_))) {
                continue;
            }
            let mut records = RecordTexts::new();
            let Ok(read) = reader.block(block) else { continue };
            read.chunks().for_each(|chunk| collect_records(&chunk, &mut records));
            blocks.push(records.into_iter().map(|(id, _)| id).collect());
        }
    }
    blocks
}

/// The stored segments on a disk.
fn stored_segment_paths(disk: &sim::Fs) -> Vec<PathBuf> {
    let store = Path::new(crate::settings::DIR).join("store");
    let is_segment = |path: &PathBuf| path.parent() == Some(&store) && path.extension().is_some_and(|end| end == "seg");
    disk.paths().into_iter().filter(is_segment).collect()
}

/// The ids of the readable records of a segment in the store of a running node.
#[cfg(test)]
pub(crate) fn stored_segment_ids(segment: &StoredSegment) -> Vec<Id> {
    let mut records = RecordTexts::new();
    for block in (0..segment.footer().blocks.len()).filter_map(|block| segment.block(block).ok()) {
        block.chunks().for_each(|chunk| collect_records(&chunk, &mut records));
    }
    records.into_iter().map(|(id, _)| id).collect()
}

/// The ids of the readable records of a stored segment.
pub(crate) fn segment_ids(disk: &sim::Fs, path: &Path) -> BTreeSet<Id> {
    let disk = disk_keys::encrypt(Arc::new(disk.clone()), 0, Arc::new(sim::Entropy::seeded(0)));
    let Some(reader) = disk.open(path).ok().and_then(|file| Reader::open(file, path).ok()) else {
        return BTreeSet::new();
    };
    let mut records = RecordTexts::new();
    for block in (0..reader.footer().blocks.len()).filter_map(|block| reader.block(block).ok()) {
        block.chunks().for_each(|chunk| collect_records(&chunk, &mut records));
    }
    records.into_iter().map(|(id, _)| id).collect()
}

/// The ids in the uncommitted segments of the queue on a disk.
pub(crate) fn pending_ids_on_disk(disk: &sim::Fs) -> BTreeSet<Id> {
    let queue = Path::new(crate::settings::DIR).join("queue");
    let is_pending = |path: &PathBuf| {
        path.starts_with(&queue) && path.extension().is_some_and(|end| end == "active" || end == "pending")
    };
    disk.paths()
        .into_iter()
        .filter(is_pending)
        .flat_map(|path| queue_file_ids(disk, path).unwrap_or_default())
        .collect()
}

/// The ids in a queue file; `None` if it cannot be read.
pub(crate) fn queue_file_ids(disk: &sim::Fs, path: PathBuf) -> Option<Vec<Id>> {
    let file = open_snapshot(disk, &path)?;
    let id = read_header(&*file, &path).ok()?.id;
    let found = scan_segment(&file, &path, id).ok()?;
    Some(view_records(&SegmentView::from_scan(id, file, path, found))?.into_iter().map(|(id, _)| id).collect())
}

/// `None` if a frame cannot be read.
fn view_records(view: &SegmentView) -> Option<RecordTexts> {
    let mut all = RecordTexts::new();
    let (positions, _) = view.frame_positions().ok()?;
    let mut frames = view.frames(HEADER_LEN as u64);
    for position in positions {
        frames.seek(position.offset);
        collect_records(&frames.next_chunk().ok()??, &mut all);
    }
    Some(all)
}

fn collect_records(chunk: &Chunk<'_>, all: &mut RecordTexts) {
    for (row, record) in (0..).zip(chunk.records()) {
        if let Some(id) = chunk.rows.id(row) {
            let record = RecordView::new(record, chunk.rows.attributes.get(row));
            all.push((id, checked_line(record)));
        }
    }
}
