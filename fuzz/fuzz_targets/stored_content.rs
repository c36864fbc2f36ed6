//! Stored segments with right checksums and hostile content: the footer is an error or a list of blocks, a block an error or
//! records.
#![no_main]
use std::path::Path;
use std::sync::Arc;

use bucksaw_env::{File, Fs as _, sim};
use bucksaw_record::Id;
use bucksaw_segment::FileHeader;
use bucksaw_segment::stored::{Reader, Writer};
use libfuzzer_sys::fuzz_target;

/// Bytes of the header.
const BLOCKS_AT: u64 = 32;

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A footer with one block, whose rows are the first `rows` bytes behind the header, and whose text the others.
fn footer(rows: usize, columns: &[u8], records: u8) -> Vec<u8> {
    // One stream a=b, no sources, no merge.
    let mut out = vec![1, 5, 1, b'a', 1, 0, b'b', 0, 0, 1];
    varint(BLOCKS_AT, &mut out);
    for length in [rows, columns.len() - rows] {
        out.push(0);
        varint(length as u64, &mut out);
        varint(length as u64, &mut out);
    }
    out.extend_from_slice(&crc32c::crc32c(columns).to_le_bytes());
    out.push(0);
    out.extend_from_slice(&crc32c::crc32c(&[]).to_le_bytes());
    out.extend_from_slice(&[0; 16]);
    out.extend_from_slice(&[0xff; 16]);
    varint(u64::from(records), &mut out);
    varint((columns.len() - rows) as u64, &mut out);
    // Accepted, producers, and the stream.
    out.extend_from_slice(&[0, 0, 1, 0]);
    out
}

fn seal(file: &Arc<dyn File>, footer: &[u8]) {
    let at = file.size().expect("a size");
    let packed = zstd::bulk::compress(footer, 1).expect("a packed footer");
    let mut trailer = at.to_le_bytes().to_vec();
    for field in [packed.len() as u32, footer.len() as u32, crc32c::crc32c(&packed)] {
        trailer.extend_from_slice(&field.to_le_bytes());
    }
    trailer.extend_from_slice(&crc32c::crc32c(&trailer).to_le_bytes());
    trailer.extend_from_slice(b"BSWFOOT1");
    file.append(&[&packed, &trailer]).expect("a footer");
}

fuzz_target!(|data: &[u8]| {
    let [kind, records, rows, data @ ..] = data else { return };
    let file = sim::Fs::new().create(Path::new("s")).expect("a new file");
    let header = FileHeader { id: Id::from_bits(1), version: 1 + u32::from(kind >> 6) % 3 };
    drop(Writer::start(Arc::clone(&file), header).expect("a header"));
    let is_hostile_block = kind & 1 == 0;
    if is_hostile_block {
        file.append(&[data]).expect("a block");
        seal(&file, &footer(usize::from(*rows).min(data.len()), data, *records));
    } else {
        seal(&file, data);
    }
    match Reader::open(file, Path::new("s")) {
        Ok(reader) => {
            for block in 0..reader.footer().blocks.len().min(20) {
                if let Ok(block) = reader.block(block) {
                    let records: usize = block.chunks().map(|chunk| chunk.records().count()).sum();
                    assert_eq!(records as u64, block.chunks().map(|chunk| u64::from(chunk.rows.count)).sum::<u64>());
                }
            }
        }
        Err(error) => assert!(!is_hostile_block, "the footer of the target is invalid: {error}"),
    }
});
