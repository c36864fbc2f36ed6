//! Verifies a segment that may be damaged, and rewrites its readable blocks.
//!
//! If footer and backup are lost, the blocks are located by their recovery records. Then the sources and the merge info are
//! lost too: existing queue segments are gathered again, and existing inputs of the merge stay. So records may be in two
//! files, of which answers drop the duplicates.

use std::path::Path;
use std::sync::Arc;

use bucksaw_env::File;
use bucksaw_record::Id;

use super::footer::Footer;
use super::reader::PackedBlock;
use super::stream_table::StreamTable;
use super::{KIND, Reader, SegmentOrigin, VERSION, Writer, recovery};
use crate::health::{Health, RecordLoss};
use crate::{Block, Damage, FileHeader, ReadError, RecordSummary};

/// A segment of which every byte was verified.
#[derive(Debug)]
pub struct VerifiedSegment {
    reader: Reader,
    health: Health,
    /// The readable blocks, by number.
    readable: Vec<usize>,
    /// The summary of their records.
    summary: RecordSummary,
}

impl VerifiedSegment {
    /// Reads a whole file. `id` is the id in its name, which is needed if header, footer and backup are all damaged.
    ///
    /// # Errors
    /// [`ReadError`] if the file cannot be read, is of a newer version, or its id is unknown.
    pub fn open(file: Arc<dyn File>, path: &Path, id: Option<Id>) -> Result<Self, ReadError> {
        match (Reader::open(Arc::clone(&file), path), id) {
            (Ok(reader), _) => Self::from_footer(reader),
            (Err(ReadError::Damaged { damage, .. }), Some(id)) => Self::from_recovery_records(file, path, id, damage),
            (Err(error), _) => Err(error),
        }
    }

    /// The result of the verification.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// The id of the segment.
    pub fn id(&self) -> Id {
        self.reader.id()
    }

    /// The summary of the readable records.
    pub fn summary(&self) -> &RecordSummary {
        &self.summary
    }

    /// Writes the readable blocks into an empty file, as an intact segment, and syncs it. With its own id it is the
    /// same segment. With another id it has no sources and no merge info: these would cause the removal of other files,
    /// which may have the records that are lost here.
    ///
    /// # Errors
    /// [`ReadError`] if a file cannot be read or written.
    pub fn write(&self, file: Arc<dyn File>, path: &Path, id: Id) -> Result<(), ReadError> {
        let version = self.reader.version();
        let mut writer = Writer::start(file, FileHeader { id, version }).map_err(ReadError::io(path))?;
        for block in &self.readable {
            writer.copy_block(&self.packed_block(*block)?).map_err(ReadError::io(path))?;
        }
        let Footer { sources, merge, .. } = self.reader.footer().clone();
        let origin = if id == self.id() { SegmentOrigin { sources, merge } } else { SegmentOrigin::default() };
        writer.seal(origin).map_err(ReadError::io(path)).map(drop)
    }

    /// A block to copy, without its filter if that is damaged.
    fn packed_block(&self, block: usize) -> Result<PackedBlock, ReadError> {
        match self.reader.packed_block(block) {
            Err(ReadError::Damaged { .. }) => self.reader.packed_columns(block),
            packed => packed,
        }
    }

    /// Verifies the blocks in the footer.
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
                // A search does not need a filter.
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

    /// Locates and verifies the blocks without a footer.
    fn from_recovery_records(file: Arc<dyn File>, path: &Path, id: Id, lost: Damage) -> Result<Self, ReadError> {
        let size = file.size().map_err(ReadError::io(path))?;
        let recovery::RecoveryScan { blocks, gaps, end, is_encrypted } = recovery::scan(&*file, path, id, size)?;
        let blocks_end = super::reader::blocks_end(&*file, path, id, size)?;
        let version = KIND.read_header(&*file, path).map_or(VERSION, |header| header.version);
        let header = FileHeader { id, version };
        let header = header.with_encryption(is_encrypted || header.is_encrypted());
        let reader = Reader::without_footer(file, path, header, size);
        let mut verified =
            Self { reader, health: Health::default(), readable: Vec::new(), summary: RecordSummary::default() };
        let mut streams = StreamTable::default();
        for (number, entry) in blocks.into_iter().enumerate() {
            let records = entry.summary.records;
            verified.reader.footer_mut().blocks.push(entry);
            match verified.reader.block(number) {
                Ok(block) => {
                    let (summary, numbers) = describe(&block, &mut streams);
                    verified.health.records += summary.records;
                    verified.summary.merge(&summary);
                    verified.readable.push(number);
                    if let Some(entry) = verified.reader.footer_mut().blocks.last_mut() {
                        (entry.summary, entry.streams) = (summary, numbers);
                    }
                }
                Err(ReadError::Damaged { damage, .. }) => {
                    verified.health.harmful.push(damage);
                    verified.health.loss += RecordLoss::exact(records);
                }
                Err(error) => return Err(error),
            }
        }
        verified.reader.footer_mut().streams = streams.into_streams();
        let health = &mut verified.health;
        if !gaps.is_empty() || blocks_end != Some(end) {
            health.loss += RecordLoss::UNKNOWN;
            health.harmful.extend(gaps);
            // More blocks may have followed the last one found.
            if blocks_end != Some(end) {
                let what = "the end of the segment is lost: blocks after the last one found may be missing";
                health.harmful.push(Damage { offset: end, what });
            }
        }
        health.harmless.push(lost);
        health.harmless.extend(verified.reader.rebuilt_damage());
        Ok(verified)
    }
}

fn count_records(block: &Block) -> u64 {
    block.chunks().map(|chunk| u64::from(chunk.rows.count)).sum()
}

/// The summary of a block and the numbers of its streams.
fn describe(block: &Block, streams: &mut StreamTable) -> (RecordSummary, Vec<u32>) {
    let mut summary = RecordSummary::default();
    block.chunks().for_each(|chunk| summary.add(&chunk.rows, chunk.text.len()));
    (summary, block.chunks().map(|chunk| streams.number(chunk.labels)).collect())
}

#[cfg(test)]
mod tests;
