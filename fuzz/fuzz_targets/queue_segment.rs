//! Queue segments after a crash: the scan ends, and every frame that it reports as whole is readable.
#![no_main]
use std::path::Path;

use bucksaw_env::{Fs as _, sim};
use bucksaw_record::Id;
use bucksaw_segment::FileHeader;
use bucksaw_segment::queue::{FrameReader, encode_header, scan_segment};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let id = Id::from_bits(1);
    let file = sim::Fs::new().create(Path::new("q")).expect("a new file");
    file.append(&[&encode_header(FileHeader { id, version: 2 }), data]).expect("an append");
    let scan = scan_segment(&file, Path::new("q"), id).expect("a scan of a file with a valid header");
    let size = file.size().expect("a size");
    for position in &scan.positions {
        let streams = scan.streams.clone();
        let mut frames = FrameReader::new(file.clone(), "q".into(), id, position.offset, size, streams);
        assert!(frames.next_chunk().expect("a whole frame").is_some());
    }
});
