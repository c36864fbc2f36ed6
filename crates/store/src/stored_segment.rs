//! A stored segment in use, with the damage that was found in it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bucksaw_env::{file_name, lock};
use bucksaw_record::{Id, Labels, Millis};
use bucksaw_segment::stored::{BlockEntry, Footer, Reader, ReplicaGroup};
use bucksaw_segment::{Block, Codec, ReadError, RecordSummary, Rows, StreamSlice};
use tracing::{error, info, warn};

use crate::repair::damage_state::DamageState;
use crate::repair::proof::Proof;
use crate::stream_retention::StreamRetention;

/// An immutable stored segment. Readable while it is held, even after its file is removed.
#[derive(Debug)]
pub struct StoredSegment {
    reader: Reader,
    reach: RecordSummary,
    newest_source: Option<Id>,
    index_bytes: u64,
    /// Blocks that were found damaged. Locked briefly, and with no other lock.
    damaged_blocks: Mutex<DamageState>,
    /// How many of [`Reader::rebuilt_damage`] were logged.
    rebuilt_logged: AtomicUsize,
    /// The number of the last erasure for which the file was checked.
    erasures_checked: AtomicU64,
}

/// Records that cannot be read: all of a quarantined file, or damaged blocks of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedSegment {
    /// The file's name in the store's directory.
    pub name: String,
    /// The time of the first lost record.
    pub low: Millis,
    /// The time of the last lost record.
    pub high: Millis,
    /// The damaged blocks; empty for a quarantined file.
    pub(crate) blocks: BTreeSet<usize>,
    /// Whether the records are re-replicated, as far as is known.
    pub(crate) proof: Proof,
}

impl DamagedSegment {
    pub(crate) fn quarantined_file(name: String, low: Millis, high: Millis, proof: Proof) -> Self {
        Self { name, low, high, blocks: BTreeSet::new(), proof }
    }

    /// Whether other stores have all lost records, so that answers are complete without them.
    pub fn is_re_replicated(&self) -> bool {
        self.proof.is_proven
    }
}

impl StoredSegment {
    pub(crate) fn new(reader: Reader) -> Self {
        let reach = reader.footer().summary();
        let newest_source = reader.footer().sources.iter().max().copied();
        let index_bytes = (size_of::<Self>() - size_of::<Reader>() + reader.memory()) as u64;
        let (damaged, logged) = (Mutex::default(), AtomicUsize::new(0));
        let stored = Self {
            reader,
            reach,
            newest_source,
            index_bytes,
            damaged_blocks: damaged,
            rebuilt_logged: logged,
            erasures_checked: AtomicU64::new(0),
        };
        stored.log_rebuilt();
        stored
    }

    /// Approximate bytes of memory of the index of the segment: mostly its block entries and labels.
    pub fn index_bytes(&self) -> u64 {
        self.index_bytes
    }

    /// The id of the segment.
    pub fn id(&self) -> Id {
        self.reader.id()
    }

    /// The ids, records and bytes in it.
    pub fn reach(&self) -> &RecordSummary {
        &self.reach
    }

    /// The newest of its sources; `None` if it has none.
    pub fn newest_source(&self) -> Option<Id> {
        self.newest_source
    }

    /// The stores that had its records when they were gathered; `None` without digests.
    pub(crate) fn replica_group(&self) -> Option<ReplicaGroup> {
        self.reader.replica_digests().map(|digests| digests.group)
    }

    /// Its footer: blocks, streams, sources.
    pub fn footer(&self) -> &Footer {
        self.reader.footer()
    }

    /// Whether gathering compressed it with the quick codec. The output of a merge is never recompressed for its codec.
    pub(crate) fn is_quickly_packed(&self, quick: Option<Codec>) -> bool {
        let Some(quick) = quick else { return false };
        let footer = self.footer();
        let is_quick = |codec: Codec| codec.byte() == quick.byte() || codec == Codec::Plain;
        footer.merge.is_none() && footer.blocks.iter().filter_map(BlockEntry::text_codec).any(is_quick)
    }

    /// The number of the last erasure for which its file was checked, all before it included; 0 for none.
    pub(crate) fn erasures_checked(&self) -> u64 {
        self.erasures_checked.load(Ordering::Relaxed)
    }

    /// Records that no erasure up to this number selects a record of its file.
    pub(crate) fn set_erasures_checked(&self, number: u64) {
        self.erasures_checked.fetch_max(number, Ordering::Relaxed);
    }

    /// Bytes of its file.
    pub fn file_bytes(&self) -> u64 {
        self.reader.file_bytes()
    }

    pub(crate) fn file_name(&self) -> String {
        file_name(self.reader.path())
    }

    /// The file itself.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Reads a block. Damage is logged once and remembered: the segment is no longer merged, so that its file stays for a repair.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn block(&self, block: usize) -> Result<Block, ReadError> {
        self.record_result(block, self.reader.block(block))
    }

    /// Reads the rows of a block without its text; otherwise like [`Self::block`].
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) fn rows(&self, block: usize) -> Result<Vec<Arc<Rows>>, ReadError> {
        self.record_result(block, self.reader.rows(block))
    }

    /// Whether no answer has any of its records, because they are past their retention.
    pub(crate) fn is_expired(&self, retention: &StreamRetention) -> bool {
        let footer = self.footer();
        if !retention.has_rules() || footer.blocks.is_empty() {
            let since = retention.since(&Labels::default());
            return since.is_some_and(|since| self.reach().newest() < since);
        }
        footer.blocks.iter().all(|block| {
            let mut streams = block.streams.iter().filter_map(|stream| footer.streams.get(*stream as usize));
            streams.all(|labels| !retention.is_retained(labels, block.summary.newest()))
        })
    }

    /// Whether all records of some of its streams, but not of all, are past their retention.
    pub(crate) fn has_expired_streams(&self, retention: &StreamRetention) -> bool {
        let newest = self.reach().newest();
        retention.has_rules()
            && retention.may_be_expired(newest)
            && self.footer().streams.iter().any(|labels| !retention.is_retained(labels, newest))
    }

    /// Whether some records of a block may be past their retention although others are not.
    pub(crate) fn may_have_expired_streams(&self, block: usize, retention: &StreamRetention) -> bool {
        let footer = self.footer();
        let Some(entry) = footer.blocks.get(block).filter(|_| retention.has_rules()) else { return false };
        let mut streams = entry.streams.iter().filter_map(|stream| footer.streams.get(*stream as usize));
        streams.any(|labels| !retention.is_retained(labels, entry.summary.low.time()))
    }

    /// The slices of a block, without its text.
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) fn slices(&self, block: usize) -> Result<Vec<StreamSlice>, ReadError> {
        self.record_result(block, self.reader.slices(block))
    }

    /// Verifies all checksums of a block; otherwise like [`Self::block`].
    ///
    /// # Errors
    /// [`ReadError`].
    pub(crate) fn verify(&self, block: usize) -> Result<(), ReadError> {
        self.record_result(block, self.reader.packed_block(block).map(drop))
    }

    pub(crate) fn is_block_damaged(&self, block: usize) -> bool {
        lock(&self.damaged_blocks).contains(block)
    }

    /// Damaged blocks whose records are re-replicated. Answers skip them.
    pub fn re_replicated_blocks(&self) -> BTreeSet<usize> {
        lock(&self.damaged_blocks).re_replicated.clone()
    }

    /// The damaged blocks that are not re-replicated, or all if all of them are. `None` without damaged blocks.
    pub fn damage(&self) -> Option<DamagedSegment> {
        let state = lock(&self.damaged_blocks);
        let (blocks, proof) = match state.blocks.is_empty() {
            true => (state.re_replicated.clone(), Proof::proven()),
            false => (state.blocks.clone(), state.proof.clone()),
        };
        drop(state);
        let reaches = || blocks.iter().filter_map(|block| Some(&self.footer().blocks.get(*block)?.summary));
        let (low, high) = (reaches().map(|reach| reach.low).min()?, reaches().map(|reach| reach.high).max()?);
        Some(DamagedSegment { name: self.file_name(), low: low.time(), high: high.time(), blocks, proof })
    }

    /// Restores the damage known before a restart, except of blocks that can be read now.
    pub(crate) fn restore_damage(&self, mut damage: DamageState) {
        let blocks = self.footer().blocks.len();
        damage.retain(|block| block < blocks && self.reader.block(block).is_err());
        let path = self.reader.path().display();
        if !damage.blocks.is_empty() {
            error!(%path, blocks = ?damage.blocks, "blocks are damaged: answers over their time are partial");
        } else if !damage.re_replicated.is_empty() {
            info!(%path, blocks = ?damage.re_replicated, "blocks are damaged, and their records are re-replicated");
        }
        *lock(&self.damaged_blocks) = damage;
    }

    /// The damage state with a new proof for some blocks; `None` if the damaged blocks have changed since.
    pub(crate) fn damage_with(&self, known: &DamagedSegment) -> Option<DamageState> {
        let mut damage = lock(&self.damaged_blocks).clone();
        damage.apply_proof(&known.blocks, &known.proof).then_some(damage)
    }

    /// Applies a new proof for some blocks, unless the damaged blocks have changed since.
    pub(crate) fn apply_proof(&self, known: &DamagedSegment) {
        lock(&self.damaged_blocks).apply_proof(&known.blocks, &known.proof);
    }

    /// The approximate time since which its records are stored: when it was gathered, or for a merged segment, when the
    /// newest input was.
    pub(crate) fn stored_since(&self) -> Millis {
        let merged = self.footer().merge.as_ref().and_then(|merge| merge.inputs.iter().map(|input| input.time()).max());
        merged.unwrap_or_else(|| self.id().time())
    }

    /// Remembers damage that was found while the block was searched.
    #[must_use]
    pub fn mark_damaged(&self, block: usize, what: &'static str) -> ReadError {
        let at = self.footer().blocks.get(block).map_or(0, |entry| entry.offset);
        let error = ReadError::damaged(self.reader.path(), at, what);
        self.record_damage(block, &error);
        error
    }

    pub(crate) fn record_result<T>(&self, block: usize, read: Result<T, ReadError>) -> Result<T, ReadError> {
        self.log_rebuilt();
        read.inspect_err(|error| self.record_damage(block, error))
    }

    fn log_rebuilt(&self) {
        let rebuilt = self.reader.rebuilt_damage();
        if self.rebuilt_logged.swap(rebuilt.len(), Ordering::Relaxed) < rebuilt.len()
            && let Some(damage) = rebuilt.last()
        {
            let path = self.reader.path().display();
            warn!(%path, %damage, "damage in a segment was rebuilt, no record is lost: check the disk");
        }
    }

    /// Whether damage was found and rebuilt.
    pub fn has_rebuilt_damage(&self) -> bool {
        self.rebuilt_logged.load(Ordering::Relaxed) > 0
    }

    fn record_damage(&self, block: usize, error: &ReadError) {
        if let ReadError::Damaged { damage, path } = error
            && lock(&self.damaged_blocks).insert(block)
        {
            error!(path = %path.display(), %damage, "a block is damaged: answers over its time are partial");
        }
    }

    /// Number of blocks found damaged.
    pub fn damaged_block_count(&self) -> usize {
        lock(&self.damaged_blocks).len()
    }
}
