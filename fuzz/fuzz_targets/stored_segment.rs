//! Stored segments, plain and encrypted: a file with changed bytes gives an error or records.
#![no_main]
use std::path::Path;
use std::sync::Arc;

use bucksaw_crypt::{EncryptedFs, KeyList, KeyRing};
use bucksaw_env::{Fs, sim};
use bucksaw_record::{Id, Labels, Millis, Producer};
use bucksaw_segment::stored::{Reader, SegmentOrigin, Writer};
use bucksaw_segment::{BlockBuilder, Codec, FileHeader, Rows};
use libfuzzer_sys::fuzz_target;

fn with_keys() -> EncryptedFs {
    let keys = KeyList::parse("01".repeat(32).as_bytes()).expect("a key");
    let ring = KeyRing::new(keys, Arc::new(sim::Entropy::seeded(1)));
    EncryptedFs::new(Arc::new(sim::Fs::new()), Arc::new(ring))
}

fn sample(fs: &dyn Fs) -> Vec<u8> {
    let file = fs.create(Path::new("s")).expect("a new file");
    let mut writer =
        Writer::start(Arc::clone(&file), FileHeader { id: Id::from_bits(1), version: 2 }).expect("a start");
    for codec in [Codec::Plain, Codec::Lz4, Codec::Zstd(1)] {
        let mut rows = Rows::default();
        rows.push_run(Id::new(Millis(5), Producer::new(2), 0), 3);
        let mut builder = BlockBuilder::default();
        builder.push(&Labels::parse("a=b").expect("labels"), &rows, 0..3, b"one one one one\ntwo\n\n");
        writer.append(&mut builder, codec).expect("a block");
    }
    writer.seal(SegmentOrigin::default()).expect("a seal");
    let mut bytes = vec![0; file.size().expect("a size") as usize];
    file.read_exact_at(0, &mut bytes).expect("the bytes");
    bytes
}

fuzz_target!(|data: &[u8]| {
    // Either arbitrary bytes, or a valid file with some bytes replaced.
    let is_encrypted = data.last().is_some_and(|last| last % 2 == 0);
    let mut bytes = if is_encrypted { sample(&with_keys()) } else { sample(&sim::Fs::new()) };
    if data.first().is_some_and(|first| first % 2 == 0) {
        for change in data.chunks_exact(3) {
            let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
            bytes[at] = change[2];
        }
    } else {
        bytes = data.to_vec();
    }
    let file = with_keys().create(Path::new("s")).expect("a new file");
    file.append(&[&bytes]).expect("an append");
    if let Ok(reader) = Reader::open(file, Path::new("s")) {
        for block in 0..reader.footer().blocks.len() {
            let _ = reader.block(block).map(|block| block.chunks().map(|chunk| chunk.records().count()).sum::<usize>());
        }
    }
});
