//! The recovery record behind each block of a shelf segment: enough to rebuild one damaged page of the block.
//!
//! Disks lose whole sectors, and flip bits. The block is cut into pages; the record has a checksum for each, which tells
//! which page is damaged, and the exclusive or of all pages, from which one page follows from the others, as in RAID 5.
//! Readers find blocks by the footer, so a version that knows no such records passes over them.
//!
//! ```text
//!   offset  size  field       meaning (little-endian)
//!        0     4  marker      "BSWR"
//!        4     4  crc32c      over all bytes of the record that follow
//!        8     4  length      bytes of the record
//!       12     4  block_len   bytes of the block: rows column, text column, filter
//!       16     4  crc32c      over both columns, as in the footer
//!       20     4  page_len    bytes of a page; the last may be shorter
//!       24     4  pages       number of pages
//!       28        checksums   4 bytes crc32c of each page
//!                 parity      exclusive or of all pages, the last filled up with zeros
//! ```

use crate::varint::Reader;

const MARKER: [u8; 4] = *b"BSWR";

/// Bytes before the checksums.
pub(super) const FIXED_LEN: usize = 28;

/// Bytes of a page of a large block: the unit in which disks fail.
const PAGE_LEN: usize = 4_096;

/// Of smaller blocks than this the pages are small too, so that the record is a small part of them.
const LARGE_BLOCK: usize = 64 << 10;
const SMALL_PAGE_LEN: usize = 512;

/// The record of a block, given the checksum over its columns.
pub(super) fn encode(block: &[u8], crc: u32) -> Vec<u8> {
    let page_len = if block.len() < LARGE_BLOCK { SMALL_PAGE_LEN } else { PAGE_LEN };
    let mut parity = vec![0_u8; page_len.min(block.len())];
    let mut checksums = Vec::with_capacity(block.len() / page_len * 4 + 4);
    for page in block.chunks(page_len) {
        checksums.extend_from_slice(&crc32c::crc32c(page).to_le_bytes());
        add(&mut parity, page);
    }
    let mut rest = Vec::with_capacity(FIXED_LEN + checksums.len() + parity.len());
    let length = FIXED_LEN + checksums.len() + parity.len();
    for field in [length as u32, block.len() as u32, crc, page_len as u32, (checksums.len() / 4) as u32] {
        rest.extend_from_slice(&field.to_le_bytes());
    }
    rest.append(&mut checksums);
    rest.append(&mut parity);
    [&MARKER[..], &crc32c::crc32c(&rest).to_le_bytes(), &rest].concat()
}

/// Adds a page to the parity, or takes it away.
fn add(parity: &mut [u8], page: &[u8]) {
    parity.iter_mut().zip(page).for_each(|(sum, byte)| *sum ^= byte);
}

/// How long the record is that begins with these bytes, for a block of so many bytes; `None` when none does.
pub(super) fn length(head: &[u8; FIXED_LEN], block_len: usize) -> Option<usize> {
    let mut reader = Reader(head);
    let is_record = reader.bytes(4)? == MARKER;
    reader.u32()?;
    let length = reader.u32()? as usize;
    let of_block = reader.u32()? as usize == block_len;
    // No page is smaller than the small ones, and none greater than the block.
    let most = FIXED_LEN + (block_len / SMALL_PAGE_LEN + 1) * 4 + PAGE_LEN;
    (is_record && of_block && length <= most).then_some(length)
}

/// Rebuilds the one page of a block that is damaged, given the block as it was read, its record, and the checksum that the
/// footer has for the columns. False when the record is not sound or not this block's, or when not just one page is damaged;
/// the block is as it was then.
pub(super) fn mend(block: &mut [u8], record: &[u8], crc: u32) -> bool {
    mend_page(block, record, crc).is_some()
}

fn mend_page(block: &mut [u8], record: &[u8], crc: u32) -> Option<()> {
    let sealed = crc32c::crc32c(record.get(8..)?);
    let mut reader = Reader(record);
    let is_record = reader.bytes(4)? == MARKER && reader.u32()? == sealed && reader.u32()? as usize == record.len();
    let of_block = reader.u32()? as usize == block.len() && reader.u32()? == crc;
    if !is_record || !of_block {
        return None;
    }
    let (page_len, pages) = (reader.u32()? as usize, reader.u32()? as usize);
    if page_len == 0 || block.len().div_ceil(page_len) != pages {
        return None;
    }
    let mut damaged = None;
    let mut checksums = Reader(reader.bytes(pages.checked_mul(4)?)?);
    let mut parity = reader.bytes(reader.len())?.to_vec();
    for (number, page) in block.chunks(page_len).enumerate() {
        if checksums.u32()? == crc32c::crc32c(page) {
            add(&mut parity, page);
        } else if damaged.replace(number).is_some() {
            return None;
        }
    }
    let page = block.chunks_mut(page_len).nth(damaged?)?;
    page.copy_from_slice(parity.get(..page.len())?);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(length: usize) -> Vec<u8> {
        (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
    }

    #[test]
    fn every_page_is_rebuilt_and_no_two() {
        for length in [1, 511, 512, 513, 5_000, LARGE_BLOCK - 1, LARGE_BLOCK, LARGE_BLOCK + 4_097] {
            let block = block(length);
            let record = encode(&block, 7);
            assert_eq!(super::length(record.first_chunk().unwrap(), length), Some(record.len()));
            let page_len = if length < LARGE_BLOCK { SMALL_PAGE_LEN } else { PAGE_LEN };
            for at in (0..length).step_by(page_len) {
                let mut damaged = block.clone();
                damaged[at..(at + page_len).min(length)].fill(0xaa);
                assert!(mend(&mut damaged, &record, 7) && damaged == block, "{length} {at}");
                assert!(!mend(&mut damaged.clone(), &record, 8), "it is the record of another block");
            }
            if length > page_len {
                let mut damaged = block.clone();
                damaged[0] ^= 1;
                *damaged.last_mut().unwrap() ^= 1;
                assert!(!mend(&mut damaged, &record, 7));
            }
        }
    }

    #[test]
    fn a_damaged_record_mends_nothing() {
        let block = block(600);
        let record = encode(&block, 7);
        for bit in 0..record.len() * 8 {
            let (mut damaged, mut record) = (block.clone(), record.clone());
            damaged[3] ^= 4;
            record[bit / 8] ^= 1 << (bit % 8);
            let before = damaged.clone();
            assert!(!mend(&mut damaged, &record, 7) && damaged == before, "bit {bit}");
        }
    }

    #[test]
    fn a_record_is_a_small_part_of_a_large_block() {
        assert!(encode(&block(1 << 20), 0).len() * 1_000 < (1 << 20) * 6);
    }

    proptest! {
        #[test]
        fn any_record_mends_or_not(mut record in prop::collection::vec(any::<u8>(), 0..120), length in 0_usize..2_000) {
            let mut block = block(length);
            let _ = mend(&mut block, &record, 0);
            if let Some(crc) = record.get(8..).map(crc32c::crc32c) {
                record[..4].copy_from_slice(&MARKER);
                record[4..8].copy_from_slice(&crc.to_le_bytes());
                let _ = mend(&mut block, &record, 0);
            }
        }
    }
}
