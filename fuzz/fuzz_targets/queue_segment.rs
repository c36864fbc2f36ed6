//! Queue segments after a crash: the scan ends, and every frame that it reports as whole is readable. Also of frames that are
//! encrypted under the right key, with hostile content.
#![no_main]
use std::path::Path;
use std::sync::Arc;

use bucksaw_crypt::{EncryptedFs, KeyList, KeyRing};
use bucksaw_env::{Fs as _, sim};
use bucksaw_record::{Id, Millis};
use bucksaw_segment::queue::{FrameReader, checksum_seed, encode_header, frame_cipher, scan_segment};
use bucksaw_segment::{FileHeader, FrameHeader, FrameKind, ReadError};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let id = Id::from_bits(1);
    let keys = KeyList::parse("01".repeat(32).as_bytes()).expect("a key");
    let ring = KeyRing::new(keys, Arc::new(sim::Entropy::seeded(1)));
    let fs = EncryptedFs::new(Arc::new(sim::Fs::new()), Arc::new(ring));
    let file = fs.create(Path::new("q")).expect("a new file");
    let header = FileHeader { id, version: 2 };
    file.append(&[&encode_header(header.with_encryption(data.len() % 2 == 0))]).expect("an append");
    match data {
        // Frames of up to 64 bytes, each behind the fields of its header.
        [0, rest @ ..] => {
            let cipher = frame_cipher(&*file, id).expect("a cipher");
            for frame in rest.chunks(68).filter(|frame| frame.len() > 4) {
                let (fields, body) = frame.split_at(4);
                let header = FrameHeader {
                    body_len: body.len() as u32,
                    row_meta_len: u32::from(fields[0]),
                    first_id: Id::from_bits(7),
                    count: u32::from(fields[1]),
                    stream: u32::from(fields[2] >> 4),
                    accepted: Millis(9),
                    kind: if fields[2] & 1 == 0 { FrameKind::Records } else { FrameKind::Stream },
                    layout_bits: fields[3] & 15,
                };
                let frame = header.encode_encrypted(checksum_seed(id), &[body], &*cipher).expect("a frame");
                file.append(&[&frame]).expect("an append");
            }
        }
        _ => file.append(&[data]).expect("an append"),
    }
    let scan = match scan_segment(&file, Path::new("q"), id) {
        Err(ReadError::MissingKey { .. }) => return,
        scan => scan.expect("a scan of a file with a valid header"),
    };
    let size = file.size().expect("a size");
    for position in &scan.positions {
        let streams = scan.streams.clone();
        let mut frames = FrameReader::new(file.clone(), "q".into(), id, position.offset, size, streams);
        assert!(frames.next_chunk().expect("a whole frame").is_some());
    }
});
