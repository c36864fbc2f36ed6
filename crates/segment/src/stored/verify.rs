//! The best reading of a segment that may be damaged, and its contents written anew.
//!
//! A segment whose footer and backup are both lost is read by the recovery records behind its blocks. What stands in the
//! footer alone is gone then: the sources, so queue segments that are still there are gathered again, and the merge, so
//! inputs that are still there stay. Either way records are in two files, and are answered once. The keys follow from the
//! ids of the records.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bucksaw_env::File;
use bucksaw_record::{Id, Labels};

use super::footer::Footer;
use super::reader::PackedBlock;
use super::{Reader, SegmentOrigin, Writer, recovery};
use crate::health::{Health, RecordLoss};
use crate::{Block, Damage, ReadError, RecordSummary};

/// A segment of which every byte was read and checked.
#[derive(Debug)]
pub struct VerifiedSegment {
    reader: Reader,
    health: Health,
    /// The blocks that can be read, by number.
    readable: Vec<usize>,
    /// The highest and lowest id of those.
    summary: RecordSummary,
}

impl VerifiedSegment {
    /// Reads all of a file. `id` is the segment's, as the file's name says it: where header, footer and backup are all
    /// damaged, nothing else tells it.
    ///
    /// # Errors
    /// [`ReadError`] when the operating system cannot read the file, when it is of a newer version, and, without an `id`,
    /// when it is damaged too much to tell which segment it is.
    pub fn open(file: Arc<dyn File>, path: &Path, id: Option<Id>) -> Result<Self, ReadError> {
        match (Reader::open(Arc::clone(&file), path), id) {
            (Ok(reader), _) => Self::from_footer(reader),
            (Err(ReadError::Damaged { damage, .. }), Some(id)) => Self::from_recovery_records(file, path, id, damage),
            (Err(error), _) => Err(error),
        }
    }

    /// What was found.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// The id of the segment.
    #[must_use]
    pub fn id(&self) -> Id {
        self.reader.id()
    }

    /// What the records reach over that can be read.
    #[must_use]
    pub fn summary(&self) -> &RecordSummary {
        &self.summary
    }

    /// Writes all that can be read into a file that was just created, as a sound segment, and syncs it. Under its own id it
    /// is the same segment again. Under another one it lacks records, so it replaces nothing: it names neither sources nor
    /// a merge, because by these other files would be removed that may hold what is lost here.
    ///
    /// # Errors
    /// [`ReadError`] when one of the files cannot be read or written.
    pub fn write(&self, file: Arc<dyn File>, path: &Path, id: Id) -> Result<(), ReadError> {
        let mut writer = Writer::start(file, id).map_err(ReadError::io(path))?;
        for block in &self.readable {
            writer.copy_block(&self.packed_block(*block)?).map_err(ReadError::io(path))?;
        }
        let Footer { sources, merge, .. } = self.reader.footer().clone();
        let origin = if id == self.id() { SegmentOrigin { sources, merge } } else { SegmentOrigin::default() };
        writer.seal(origin).map_err(ReadError::io(path)).map(drop)
    }

    /// A block as it is carried. One whose filter is damaged goes without.
    fn packed_block(&self, block: usize) -> Result<PackedBlock, ReadError> {
        match self.reader.packed_block(block) {
            Err(ReadError::Damaged { .. }) => self.reader.packed_columns(block),
            packed => packed,
        }
    }

    /// Checks the blocks that a footer tells of.
    fn from_footer(reader: Reader) -> Result<Self, ReadError> {
        let mut verified =
            Self { reader, health: Health::default(), readable: Vec::new(), summary: RecordSummary::default() };
        for number in 0..verified.reader.footer().blocks.len() {
            verified.verify_block(number)?;
        }
        let rebuilt = verified.reader.rebuilt_damage();
        if verified.health.is_intact() && rebuilt.is_empty() {
            verified.health.harmless = verified.reader.damaged_redundancy()?;
        }
        verified.health.harmless.extend(rebuilt);
        Ok(verified)
    }

    fn verify_block(&mut self, number: usize) -> Result<(), ReadError> {
        let Some(entry) = self.reader.footer().blocks.get(number) else { return Ok(()) };
        let (at, reach) = (entry.offset, entry.summary.clone());
        let filter = match self.reader.filter(number) {
            Ok(_) => None,
            Err(ReadError::Damaged { damage, .. }) => Some(damage),
            Err(error) => return Err(error),
        };
        match self.reader.block(number) {
            Ok(block) if count_records(&block) == reach.records => {
                self.health.records += reach.records;
                // A search does without a filter.
                self.health.harmless.extend(filter);
                self.readable.push(number);
                self.summary.merge(&reach);
                return Ok(());
            }
            Ok(_) => self
                .health
                .harmful
                .push(Damage { offset: at, what: "the record count of the block does not match the footer" }),
            Err(ReadError::Damaged { damage, .. }) => self.health.harmful.push(damage),
            Err(error) => return Err(error),
        }
        self.health.loss += RecordLoss::exact(reach.records);
        Ok(())
    }

    /// Finds the blocks without a footer.
    fn from_recovery_records(file: Arc<dyn File>, path: &Path, id: Id, broken: Damage) -> Result<Self, ReadError> {
        let size = file.size().map_err(ReadError::io(path))?;
        let recovery::RecoveryScan { blocks, gaps: holes, end } = recovery::scan(&*file, path, id, size)?;
        let blocks_end = super::reader::blocks_end(&*file, path, id, size)?;
        let reader = Reader::without_footer(file, path, id, size);
        let mut verified =
            Self { reader, health: Health::default(), readable: Vec::new(), summary: RecordSummary::default() };
        let mut found = RebuiltFooter::default();
        for entry in blocks {
            let records = entry.summary.records;
            let number = verified.reader.add_block(entry);
            match verified.reader.block(number) {
                Ok(block) => {
                    let (reach, streams) = found.add_block(&block);
                    verified.health.records += reach.records;
                    verified.summary.merge(&reach);
                    verified.readable.push(number);
                    verified.reader.describe_block(number, reach, streams);
                }
                Err(ReadError::Damaged { damage, .. }) => {
                    verified.health.harmful.push(damage);
                    verified.health.loss += RecordLoss::exact(records);
                }
                Err(error) => return Err(error),
            }
        }
        verified.reader.describe(found.streams);
        let health = &mut verified.health;
        let is_whole = holes.is_empty() && blocks_end == Some(end);
        if !is_whole {
            health.loss += RecordLoss::UNKNOWN;
            health.harmful.extend(holes);
            // Nothing proves that the last block that was found is the last one that was written.
            if blocks_end != Some(end) {
                let what = "the end of the segment is lost: blocks after the last one found may be missing";
                health.harmful.push(Damage { offset: end, what });
            }
        }
        health.harmless.push(broken);
        health.harmless.extend(verified.reader.rebuilt_damage());
        Ok(verified)
    }
}

fn count_records(block: &Block) -> u64 {
    block.chunks().map(|chunk| u64::from(chunk.rows.count)).sum()
}

/// What a footer says besides its blocks, as far as the blocks tell it.
#[derive(Default)]
struct RebuiltFooter {
    streams: Vec<Labels>,
    numbers: BTreeMap<Labels, u32>,
}

impl RebuiltFooter {
    /// What a block reaches over, and its streams by number.
    fn add_block(&mut self, block: &Block) -> (RecordSummary, Vec<u32>) {
        let (mut reach, mut numbers) = (RecordSummary::default(), Vec::new());
        for chunk in block.chunks() {
            reach.add(&chunk.rows, chunk.text.len());
            let next = self.streams.len() as u32;
            let number = *self.numbers.entry(chunk.labels.clone()).or_insert_with_key(|labels| {
                self.streams.push(labels.clone());
                next
            });
            numbers.push(number);
        }
        (reach, numbers)
    }
}

#[cfg(test)]
mod tests;
