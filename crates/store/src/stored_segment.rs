//! A segment on the store, shared with those who read it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bucksaw_record::{Id, Millis};
use bucksaw_segment::stored::{BlockEntry, Footer, Reader, SearchableBlock};
use bucksaw_segment::{Block, Codec, ReadError, RecordSummary, Rows};
use tracing::{error, info, warn};

use crate::repair::damage_state::DamageState;
use crate::repair::proof::Proof;

/// An immutable segment. Stays readable while somebody holds it, also when its file is removed.
#[derive(Debug)]
pub struct StoredSegment {
    reader: Reader,
    reach: RecordSummary,
    newest_source: Option<Id>,
    /// What this takes in memory.
    index_bytes: u64,
    /// Blocks that were found damaged. Held for moments only, and with no other lock.
    damaged_blocks: Mutex<DamageState>,
    /// How many of [`Reader::mended`] were logged.
    rebuilt_logged: AtomicUsize,
}

/// What answers have to do without: a file that was set aside, or damaged blocks of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSegment {
    /// The file's name in the store's directory.
    pub name: String,
    /// The time of the first record that is missing.
    pub low: Millis,
    /// The time of the last one.
    pub high: Millis,
    /// The blocks of a segment that is in use; empty when all of the file is missing.
    pub(crate) blocks: BTreeSet<usize>,
    /// What is known of the records.
    pub(crate) proof: Proof,
}

impl DamagedSegment {
    /// A file that was set aside.
    pub(crate) fn quarantined_file(name: String, low: Millis, high: Millis, proof: Proof) -> Self {
        Self { name, low, high, blocks: BTreeSet::new(), proof }
    }

    /// Whether every record that is missing is kept by other stores, so that answers are whole without them.
    #[must_use]
    pub fn is_re_replicated(&self) -> bool {
        self.proof.is_proven()
    }
}

impl StoredSegment {
    pub(crate) fn new(reader: Reader) -> Self {
        let reach = reader.footer().summary();
        let newest_source = reader.footer().sources.iter().max().copied();
        let index_bytes = (size_of::<Self>() - size_of::<Reader>() + reader.memory()) as u64;
        let (broken, logged) = (Mutex::default(), AtomicUsize::new(0));
        let stored = Self { reader, reach, newest_source, index_bytes, damaged_blocks: broken, rebuilt_logged: logged };
        stored.log_rebuilt();
        stored
    }

    /// Bytes of memory that what is known of the segment takes, about: most of it is for the blocks and the labels.
    #[must_use]
    pub fn index_bytes(&self) -> u64 {
        self.index_bytes
    }

    /// The id of the segment.
    #[must_use]
    pub fn id(&self) -> Id {
        self.reader.id()
    }

    /// What it reaches over.
    #[must_use]
    pub fn reach(&self) -> &RecordSummary {
        &self.reach
    }

    /// The newest of the queue segments that it names as its sources; `None` when it names none.
    #[must_use]
    pub fn newest_source(&self) -> Option<Id> {
        self.newest_source
    }

    /// What it holds, block by block.
    #[must_use]
    pub fn footer(&self) -> &Footer {
        self.reader.footer()
    }

    /// Whether it was packed quickly, by this codec, when it was gathered. What a merge made was packed for good, also where
    /// that came to the same.
    pub(crate) fn is_quickly_packed(&self, quick: Option<Codec>) -> bool {
        let Some(quick) = quick else { return false };
        let footer = self.footer();
        let is_quick = |codec: Codec| codec.byte() == quick.byte() || codec == Codec::Plain;
        footer.merge.is_none() && footer.blocks.iter().filter_map(BlockEntry::text_codec).any(is_quick)
    }

    /// Bytes of its file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.reader.file_bytes()
    }

    /// The name of its file.
    pub(crate) fn file_name(&self) -> String {
        self.reader.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// The file itself.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Reads a block. Damage is logged once and remembered: the segment is not merged any more, so that nothing that
    /// could still be rescued is removed.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn block(&self, block: usize) -> Result<Block, ReadError> {
        self.record_result(block, self.reader.block(block))
    }

    /// Reads a block as a search wants it; otherwise as [`Self::block`].
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn search_form(&self, block: usize) -> Result<SearchableBlock, ReadError> {
        self.record_result(block, self.reader.searchable_block(block))
    }

    /// Reads which records a block has; otherwise as [`Self::block`].
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) fn rows(&self, block: usize) -> Result<Vec<Arc<Rows>>, ReadError> {
        self.record_result(block, self.reader.rows(block))
    }

    /// Reads all bytes of a block and holds them against their checksums; otherwise as [`Self::block`].
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) fn verify(&self, block: usize) -> Result<(), ReadError> {
        self.record_result(block, self.reader.packed_block(block).map(drop))
    }

    fn lock_damaged_blocks(&self) -> MutexGuard<'_, DamageState> {
        self.damaged_blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a block was found damaged.
    pub(crate) fn is_block_damaged(&self, block: usize) -> bool {
        self.lock_damaged_blocks().contains(block)
    }

    /// Damaged blocks of which other stores are proven to keep all records: answers pass over them.
    #[must_use]
    pub fn re_replicated_blocks(&self) -> BTreeSet<usize> {
        self.lock_damaged_blocks().re_replicated.clone()
    }

    /// What answers have to do without: the damaged blocks that were not made good, or all when all of them were. `None` where
    /// no block was found damaged.
    #[must_use]
    pub fn damage(&self) -> Option<DamagedSegment> {
        let broken = self.lock_damaged_blocks();
        let (blocks, proof) = match broken.blocks.is_empty() {
            true => (broken.re_replicated.clone(), Proof::proven()),
            false => (broken.blocks.clone(), broken.proof.clone()),
        };
        drop(broken);
        let reaches = || blocks.iter().filter_map(|block| Some(&self.footer().blocks.get(*block)?.summary));
        let (low, high) = (reaches().map(|reach| reach.low).min()?, reaches().map(|reach| reach.high).max()?);
        Some(DamagedSegment { name: self.file_name(), low: low.time(), high: high.time(), blocks, proof })
    }

    /// Takes back what was known of its blocks before a restart. Those that can be read now, because the file was mended or
    /// replaced, are not damaged.
    pub(crate) fn restore_damage(&self, mut damage: DamageState) {
        let blocks = self.footer().blocks.len();
        damage.retain(|block| block < blocks && self.reader.block(block).is_err());
        let path = self.reader.path().display();
        if !damage.blocks.is_empty() {
            error!(%path, blocks = ?damage.blocks, "blocks are damaged: answers over their time are partial");
        } else if !damage.re_replicated.is_empty() {
            info!(%path, blocks = ?damage.re_replicated, "blocks are damaged, and other stores keep all their records");
        }
        *self.lock_damaged_blocks() = damage;
    }

    /// What would be kept of its blocks with what is known now of some; `None` when more are damaged.
    pub(crate) fn damage_with(&self, known: &DamagedSegment) -> Option<DamageState> {
        let mut damage = self.lock_damaged_blocks().clone();
        damage.apply_proof(&known.blocks, &known.proof).then_some(damage)
    }

    /// Takes in what is known now of some blocks, unless more are damaged.
    pub(crate) fn apply_proof(&self, known: &DamagedSegment) {
        self.lock_damaged_blocks().apply_proof(&known.blocks, &known.proof);
    }

    /// Since when its records lie on shelves, about: when it was gathered, or what was merged last into it was.
    pub(crate) fn stored_since(&self) -> Millis {
        let merged = self.footer().merge.as_ref().and_then(|merge| merge.inputs.iter().map(|input| input.time()).max());
        merged.unwrap_or_else(|| self.id().time())
    }

    /// Remembers that a block is damaged, as was found out while it was searched.
    #[must_use]
    pub fn mark_damaged(&self, block: usize, what: &'static str) -> ReadError {
        let at = self.footer().blocks.get(block).map_or(0, |entry| entry.offset);
        let error = ReadError::damaged(self.reader.path(), at, what);
        self.record_damage(block, &error);
        error
    }

    fn record_result<T>(&self, block: usize, read: Result<T, ReadError>) -> Result<T, ReadError> {
        self.log_rebuilt();
        read.inspect_err(|error| self.record_damage(block, error))
    }

    /// Logs, once, each damage that cost nothing.
    fn log_rebuilt(&self) {
        let mended = self.reader.rebuilt_damage();
        if self.rebuilt_logged.swap(mended.len(), Ordering::Relaxed) < mended.len()
            && let Some(damage) = mended.last()
        {
            let path = self.reader.path().display();
            warn!(%path, %damage, "a segment is damaged, and what is damaged was rebuilt: check the disk");
        }
    }

    /// Whether damage was found that cost nothing.
    #[must_use]
    pub fn has_rebuilt_damage(&self) -> bool {
        self.rebuilt_logged.load(Ordering::Relaxed) > 0
    }

    fn record_damage(&self, block: usize, error: &ReadError) {
        if let ReadError::Damaged { damage, path } = error
            && self.lock_damaged_blocks().insert(block)
        {
            error!(path = %path.display(), %damage, "a block is damaged: answers over its time are partial");
        }
    }

    /// How many blocks were found damaged so far.
    #[must_use]
    pub fn damaged_block_count(&self) -> usize {
        self.lock_damaged_blocks().len()
    }
}
