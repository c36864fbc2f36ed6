//! The recovery record after each block: it rebuilds one damaged page of the block, and locates the block without a footer.
//! Format: `docs/format.md`, "Recovery record".
//!
//! Disks lose whole sectors, and flip bits. The record has a checksum for each page, which identifies the damaged one, and the
//! exclusive or of all pages, which rebuilds it from the others, as in RAID 5. The head has a checksum of its own, so that
//! [`scan`] finds a block whose parity is damaged.

use std::path::Path;

use bucksaw_binary::ByteReader;
use bucksaw_env::File;
use bucksaw_record::Id;

use super::footer::{BlockEntry, ColumnEntry};
use super::{COLUMN_BYTES_MAX, FILTER_BYTES_MAX, HEADER_LEN};
use crate::file_header::checksum_seed;
use crate::{Codec, Damage, FileHeader, ReadError, RecordSummary};

const MARKER: [u8; 4] = *b"BSWR";

/// Bytes before the checksums.
pub(super) const FIXED_LEN: usize = 60;

/// Bytes of a page of a large block: the unit in which disks fail.
const PAGE_LEN: usize = 4_096;

/// Blocks below this size have small pages, so that the record is small compared to the block.
const LARGE_BLOCK: usize = 64 << 10;
const SMALL_PAGE_LEN: usize = 512;

/// Encodes the record of a block of the segment with this header.
pub(super) fn encode(block: &[u8], entry: &BlockEntry, header: FileHeader) -> Vec<u8> {
    let id = header.id;
    let page_len = if block.len() < LARGE_BLOCK { SMALL_PAGE_LEN } else { PAGE_LEN };
    let mut parity = vec![0_u8; page_len.min(block.len())];
    let mut checksums = Vec::with_capacity(block.len() / page_len * 4 + 4);
    for page in block.chunks(page_len) {
        checksums.extend_from_slice(&crc32c::crc32c(page).to_le_bytes());
        xor_page(&mut parity, page);
    }
    let length = FIXED_LEN + checksums.len() + parity.len();
    let mut rest = Vec::with_capacity(length);
    let (rows, text) = (&entry.rows, &entry.text);
    for field in [length as u32, rows.packed_len, rows.raw_len, text.packed_len, text.raw_len] {
        rest.extend_from_slice(&field.to_le_bytes());
    }
    for field in [entry.filter_len, entry.filter_crc, entry.crc, entry.summary.records as u32] {
        rest.extend_from_slice(&field.to_le_bytes());
    }
    rest.extend_from_slice(&[rows.codec, text.codec, u8::from(header.is_encrypted()), 0]);
    for field in [page_len as u32, (checksums.len() / 4) as u32] {
        rest.extend_from_slice(&field.to_le_bytes());
    }
    rest.extend_from_slice(&crc32c::crc32c_append(checksum_seed(id), &rest).to_le_bytes());
    rest.append(&mut checksums);
    rest.append(&mut parity);
    [&MARKER[..], &crc32c::crc32c_append(checksum_seed(id), &rest).to_le_bytes(), &rest].concat()
}

/// The fixed part of a record. Its entry has no offset, no streams, and only the record count of the summary: the rest
/// follows from the block.
#[derive(Debug)]
struct RecoveryHeader {
    length: usize,
    entry: BlockEntry,
    page_len: usize,
    pages: usize,
    is_encrypted: bool,
}

impl RecoveryHeader {
    /// Decodes the fixed part of a record of segment `id`; `None` if it is damaged.
    fn parse(head: &[u8; FIXED_LEN], id: Id) -> Option<Self> {
        let sealed = crc32c::crc32c_append(checksum_seed(id), head.get(8..FIXED_LEN - 4)?);
        let mut reader = ByteReader(head);
        if reader.bytes(4)? != MARKER {
            return None;
        }
        reader.u32()?;
        let length = reader.u32()? as usize;
        let (rows_len, rows_raw, text_len, text_raw) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
        let (filter_len, filter_crc, crc, records) = (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
        let codecs = (reader.u8()?, reader.u8()?);
        let (encryption, reserved) = (reader.u8()?, reader.u8()?);
        let (page_len, pages) = (reader.u32()? as usize, reader.u32()? as usize);
        let column = |codec: u8, packed_len: u32, raw_len: u32| {
            Codec::from_byte(codec)?;
            let bounded = (packed_len.max(raw_len) as usize) <= COLUMN_BYTES_MAX;
            bounded.then_some(ColumnEntry { codec, packed_len, raw_len })
        };
        let mut entry = BlockEntry {
            offset: 0,
            rows: column(codecs.0, rows_len, rows_raw)?,
            text: column(codecs.1, text_len, text_raw)?,
            crc,
            filter_len,
            filter_crc,
            summary: RecordSummary::default(),
            streams: Vec::new(),
        };
        entry.summary.records = u64::from(records);
        let block_len = entry.packed_bytes() as usize;
        let fits = page_len > 0
            && block_len.div_ceil(page_len) == pages
            && length == FIXED_LEN + pages * 4 + page_len.min(block_len)
            && filter_len as usize <= FILTER_BYTES_MAX;
        let is_known = encryption <= 1 && reserved == 0;
        let is_encrypted = encryption == 1;
        (reader.u32()? == sealed && is_known && fits).then_some(Self { length, entry, page_len, pages, is_encrypted })
    }
}

/// The blocks of a file, found by their records.
#[derive(Debug, Default)]
pub(super) struct RecoveryScan {
    /// In file order, as in [`RecoveryHeader`], with their offsets.
    pub(super) blocks: Vec<BlockEntry>,
    /// Bytes that belong to no block.
    pub(super) gaps: Vec<Damage>,
    /// The end of the last record.
    pub(super) end: u64,
    /// Whether the blocks are encrypted.
    pub(super) is_encrypted: bool,
}

/// Searches a file of segment `id` for records, from front to back.
///
/// # Errors
/// [`ReadError`] if the file cannot be read.
pub(super) fn scan(file: &dyn File, path: &Path, id: Id, file_bytes: u64) -> Result<RecoveryScan, ReadError> {
    const WINDOW_BYTES: usize = 256 << 10;
    let finder = memchr::memmem::Finder::new(&MARKER);
    let mut scan = RecoveryScan { end: HEADER_LEN as u64, ..RecoveryScan::default() };
    let mut window = vec![0; WINDOW_BYTES];
    let mut from = scan.end;
    while from + FIXED_LEN as u64 <= file_bytes {
        let got = file.read_at(from, &mut window).map_err(ReadError::io(path))?;
        let have = window.get(..got).unwrap_or_default();
        // A head that crosses the end of the window is part of the next one.
        let whole = got.saturating_sub(FIXED_LEN - 1);
        if whole == 0 {
            break;
        }
        let mut next = from + whole as u64;
        for found in finder.find_iter(have).take_while(|found| *found < whole) {
            let Some(head) = have.get(found..).and_then(|rest| rest.first_chunk()) else { break };
            let Some(found_header) = RecoveryHeader::parse(head, id) else { continue };
            let RecoveryHeader { length, entry, is_encrypted, .. } = found_header;
            let record_at = from + found as u64;
            let Some(at) = record_at.checked_sub(entry.packed_bytes()).filter(|at| *at >= scan.end) else { continue };
            if at > scan.end {
                scan.gaps.push(Damage { offset: scan.end, what: "a block and its recovery record are damaged" });
            }
            scan.is_encrypted |= is_encrypted;
            scan.blocks.push(BlockEntry { offset: at, ..entry });
            scan.end = record_at + length as u64;
            next = scan.end;
            break;
        }
        from = next;
    }
    Ok(scan)
}

/// Adds a page to the parity, or removes it.
fn xor_page(parity: &mut [u8], page: &[u8]) {
    parity.iter_mut().zip(page).for_each(|(sum, byte)| *sum ^= byte);
}

/// The length of the record with this head, if it belongs to a block of this size.
pub(super) fn record_len(head: &[u8; FIXED_LEN], block_len: usize, id: Id) -> Option<usize> {
    let head = RecoveryHeader::parse(head, id)?;
    (head.entry.packed_bytes() as usize == block_len).then_some(head.length)
}

/// Rebuilds the damaged page of a block. `crc` is the checksum of its columns in the footer. Returns false, and leaves the block
/// unchanged, if the record is damaged or of another block, or if not exactly one page is damaged.
pub(super) fn rebuild_page(block: &mut [u8], record: &[u8], crc: u32, id: Id) -> bool {
    try_rebuild_page(block, record, crc, id).is_some()
}

fn try_rebuild_page(block: &mut [u8], record: &[u8], crc: u32, id: Id) -> Option<()> {
    let head = RecoveryHeader::parse(record.first_chunk()?, id)?;
    let sealed = crc32c::crc32c_append(checksum_seed(id), record.get(8..)?);
    let is_sound = ByteReader(record.get(4..)?).u32()? == sealed && head.length == record.len();
    let of_block = head.entry.packed_bytes() as usize == block.len() && head.entry.crc == crc;
    if !is_sound || !of_block {
        return None;
    }
    let mut reader = ByteReader(record.get(FIXED_LEN..)?);
    let mut damaged = None;
    let mut checksums = ByteReader(reader.bytes(head.pages.checked_mul(4)?)?);
    let mut parity = reader.bytes(reader.len())?.to_vec();
    for (number, page) in block.chunks(head.page_len).enumerate() {
        if checksums.u32()? == crc32c::crc32c(page) {
            xor_page(&mut parity, page);
        } else if damaged.replace(number).is_some() {
            return None;
        }
    }
    let page = block.chunks_mut(head.page_len).nth(damaged?)?;
    page.copy_from_slice(parity.get(..page.len())?);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: Id = Id::from_bits(5);

    fn block(length: usize) -> Vec<u8> {
        (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
    }

    /// The entry of a block of plain columns with this number of bytes.
    fn entry(length: usize, crc: u32) -> BlockEntry {
        let column = |packed_len| ColumnEntry { codec: 0, packed_len, raw_len: packed_len };
        let (rows, text) = (column(length as u32 / 3), column((length - length / 3) as u32));
        let mut reach = RecordSummary::default();
        reach.records = 9;
        BlockEntry { offset: 0, rows, text, crc, filter_len: 0, filter_crc: 0, summary: reach, streams: Vec::new() }
    }

    fn record(block: &[u8], crc: u32) -> Vec<u8> {
        encode(block, &entry(block.len(), crc), FileHeader { id: ID, version: 1 })
    }

    fn rebuild(block: &mut [u8], record: &[u8], crc: u32) -> bool {
        super::rebuild_page(block, record, crc, ID)
    }

    #[test]
    fn any_one_page_is_rebuilt_but_not_two() {
        for length in [1, 511, 512, 513, 5_000, LARGE_BLOCK - 1, LARGE_BLOCK, LARGE_BLOCK + 4_097] {
            let block = block(length);
            let record = record(&block, 7);
            assert_eq!(super::record_len(record.first_chunk().unwrap(), length, ID), Some(record.len()));
            let page_len = if length < LARGE_BLOCK { SMALL_PAGE_LEN } else { PAGE_LEN };
            for at in (0..length).step_by(page_len) {
                let mut damaged = block.clone();
                damaged[at..(at + page_len).min(length)].fill(0xaa);
                assert!(rebuild(&mut damaged, &record, 7) && damaged == block, "{length} {at}");
                assert!(!rebuild(&mut damaged.clone(), &record, 8), "the record of another block");
                let other = Id::from_bits(6);
                assert!(!super::rebuild_page(&mut damaged.clone(), &record, 7, other), "the record of another segment");
            }
            if length > page_len {
                let mut damaged = block.clone();
                damaged[0] ^= 1;
                *damaged.last_mut().unwrap() ^= 1;
                assert!(!rebuild(&mut damaged, &record, 7));
            }
        }
    }

    #[test]
    fn a_damaged_record_rebuilds_nothing() {
        let block = block(600);
        let record = record(&block, 7);
        for bit in 0..record.len() * 8 {
            let (mut damaged, mut record) = (block.clone(), record.clone());
            damaged[3] ^= 4;
            record[bit / 8] ^= 1 << (bit % 8);
            let before = damaged.clone();
            assert!(!rebuild(&mut damaged, &record, 7) && damaged == before, "bit {bit}");
        }
    }

    #[test]
    fn a_record_is_a_small_part_of_a_large_block() {
        assert!(record(&block(1 << 20), 0).len() * 1_000 < (1 << 20) * 6);
    }

    #[test]
    fn blocks_are_found_by_their_records() {
        // Large blocks, so that heads cross the edges of windows; one contains the record of another segment.
        let foreign = encode(&block(40), &entry(40, 1), FileHeader { id: Id::from_bits(6), version: 1 });
        let inner = [block(300_000), foreign, block(100_000)].concat();
        let blocks = [block(262_080), inner, block(262_144 - 60), block(1)];
        let mut bytes = vec![0; HEADER_LEN];
        let mut want = Vec::new();
        for block in &blocks {
            want.push(BlockEntry { offset: bytes.len() as u64, ..entry(block.len(), 7) });
            bytes.extend_from_slice(block);
            bytes.extend(record(block, 7));
        }
        let find = |bytes: &[u8]| {
            use bucksaw_env::{Fs as _, sim};
            let file = sim::Fs::new().create(Path::new("s")).unwrap();
            file.append(&[bytes]).unwrap();
            scan(&*file, Path::new("s"), ID, bytes.len() as u64).unwrap()
        };
        let end = bytes.len() as u64;
        bytes.extend_from_slice(&[7; 500]);
        let found = find(&bytes);
        assert_eq!((found.blocks, found.gaps.len(), found.end), (want.clone(), 0, end));
        // A record with a damaged parity locates its block; one with a damaged head leaves a gap.
        let record_at = (want[1].offset + want[1].packed_bytes()) as usize;
        bytes[record_at + FIXED_LEN + 3] ^= 1;
        assert_eq!(find(&bytes).blocks, want);
        bytes[record_at + 20] ^= 1;
        let found = find(&bytes);
        assert_eq!((found.blocks.len(), found.gaps.len(), found.gaps[0].offset), (3, 1, want[1].offset));
    }

    proptest! {
        #[test]
        fn any_record_rebuilds_or_fails(mut record in prop::collection::vec(any::<u8>(), 0..120), length in 0_usize..2_000) {
            let mut block = block(length);
            let _ = rebuild(&mut block, &record, 0);
            if record.len() > FIXED_LEN {
                record[..4].copy_from_slice(&MARKER);
                let crc = crc32c::crc32c_append(checksum_seed(ID), &record[8..56]);
                record[56..60].copy_from_slice(&crc.to_le_bytes());
                let crc = crc32c::crc32c_append(checksum_seed(ID), &record[8..]);
                record[4..8].copy_from_slice(&crc.to_le_bytes());
                let _ = rebuild(&mut block, &record, 0);
            }
        }
    }
}
