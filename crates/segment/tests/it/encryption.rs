//! Encrypted segments: what is in the file, and what changes of the file and of the keys do.

use std::path::Path;
use std::sync::Arc;

use bucksaw_crypt::{EncryptedFs, KeyList, KeyRing};
use bucksaw_env::{ENCRYPTION_OVERHEAD, File, FileCipher, Fs, sim};
use bucksaw_record::{Id, Labels, Millis, Producer};
use bucksaw_segment::queue::{
    FrameReader, HEADER_LEN, Seal, checksum_seed, encode_header, frame_cipher, rewrite, scan_segment,
};
use bucksaw_segment::stored::{Reader, SegmentOrigin, VerifiedSegment, Writer};
use bucksaw_segment::{BlockBuilder, Codec, FileHeader, FrameHeader, FrameKind, ReadError, RecordSummary, Rows};
use proptest::prelude::*;

use crate::fixtures;

const ID: Id = Id::from_bits(0x0199_a1b2_c3d4_1111_2222_3333_4444_5555);
const NEEDLE: &[u8] = b"the-needle-that-no-file-may-show";
const LABEL: &str = "secret-application";

/// A file system with keys; the first one encrypts. Without keys it encrypts nothing.
pub(crate) fn fs(keys: &[u8]) -> Arc<dyn Fs> {
    if keys.is_empty() {
        return Arc::new(sim::Fs::new());
    }
    let text: String = keys.iter().map(|key| format!("{}\n", format!("{key:02x}").repeat(32))).collect();
    let ring = KeyRing::new(KeyList::parse(text.as_bytes()).unwrap(), Arc::new(sim::Entropy::seeded(keys[0].into())));
    Arc::new(EncryptedFs::new(Arc::new(sim::Fs::new()), Arc::new(ring)))
}

fn file(keys: &[u8], bytes: &[u8]) -> Arc<dyn File> {
    let file = fs(keys).create(Path::new("s")).unwrap();
    file.append(&[bytes]).unwrap();
    file
}

fn bytes_of(file: &Arc<dyn File>) -> Vec<u8> {
    file.read_bytes(0, file.size().unwrap() as usize).unwrap()
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(bytes, part).is_some()
}

fn builder(ms: u64, text: &[u8]) -> BlockBuilder {
    let mut rows = Rows { accepted: Millis(ms), ..Rows::default() };
    let count = text.iter().filter(|byte| **byte == b'\n').count() as u32;
    rows.push_run(Id::new(Millis(ms), Producer::new(1), 0), count);
    let mut builder = BlockBuilder::default();
    builder.push(&Labels::new([("app", LABEL)]).unwrap(), &rows, 0..count, text);
    builder
}

/// Lines that are packed as columns, with a filter.
fn log(rows: u64) -> Vec<u8> {
    let line = |row: u64| format!("at {row} GET /{} in {} ms {}\n", row % 9, row * 7 % 50, NEEDLE.escape_ascii());
    (0..rows).map(line).collect::<String>().into_bytes()
}

fn texts() -> [Vec<u8>; 3] {
    [[NEEDLE, b"\n"].concat(), [NEEDLE, b"\n"].concat().repeat(20), log(300)]
}

fn stored(keys: &[u8]) -> Vec<u8> {
    let file = file(keys, b"");
    let mut writer = Writer::start(Arc::clone(&file), FileHeader { id: ID, version: 1 }).unwrap();
    for ((text, codec), ms) in texts().iter().zip([Codec::Plain, Codec::Lz4, Codec::Columns(1)]).zip(1..) {
        writer.append(&mut builder(ms * 10, text), codec).unwrap();
    }
    writer.seal(SegmentOrigin { sources: vec![Id::from_bits(5)], merge: None }).unwrap();
    bytes_of(&file)
}

fn read(keys: &[u8], bytes: &[u8]) -> Result<Vec<Vec<u8>>, ReadError> {
    let reader = Reader::open(file(keys, bytes), Path::new("s"))?;
    let mut texts = Vec::new();
    for block in 0..reader.footer().blocks.len() {
        reader.filter(block)?;
        reader.slices(block)?;
        texts.extend(reader.block(block)?.chunks().map(|chunk| chunk.text.to_vec()));
    }
    Ok(texts)
}

#[test]
fn a_stored_segment_shows_no_content_without_its_key() {
    let plain = stored(&[]);
    assert!(has(&plain, NEEDLE), "the needle is in a plain file");
    let bytes = stored(&[1]);
    assert!(!has(&bytes, NEEDLE) && !has(&bytes, LABEL.as_bytes()));
    assert_eq!(read(&[1], &bytes).unwrap(), texts());
    assert_eq!(read(&[2, 1], &bytes).unwrap(), texts(), "all keys decrypt");
    assert_eq!(read(&[2], &plain).unwrap(), texts(), "files that are not encrypted stay readable");
    let reader = Reader::open(file(&[2, 1], &bytes), Path::new("s")).unwrap();
    assert_eq!((reader.version(), reader.key_id()), (1, fs(&[1]).keys().unwrap().writing_key()));
    assert!(!Reader::open(file(&[1], &bytes), Path::new("s")).unwrap().filter(2).unwrap().is_empty());
}

#[test]
fn a_missing_key_is_no_damage() {
    let bytes = stored(&[1]);
    let key = fs(&[1]).keys().unwrap().writing_key().unwrap();
    let is_missing = |error: ReadError| matches!(error, ReadError::MissingKey { key: named, .. } if named == key);
    for keys in [&[][..], &[2]] {
        assert!(is_missing(read(keys, &bytes).unwrap_err()));
        assert!(is_missing(VerifiedSegment::open(file(keys, &bytes), Path::new("s"), Some(ID)).unwrap_err()));
        // Also if header, footer and backup are damaged, and the blocks are found by their recovery records.
        let mut damaged = bytes.clone();
        let footer_at = damaged.len() - 4_450;
        damaged[footer_at..].fill(0xaa);
        damaged[..HEADER_LEN].fill(0xaa);
        assert!(is_missing(VerifiedSegment::open(file(keys, &damaged), Path::new("s"), Some(ID)).unwrap_err()));
        let verified = VerifiedSegment::open(file(&[1], &damaged), Path::new("s"), Some(ID)).unwrap();
        assert_eq!(verified.health().records, 321);
    }
}

#[test]
fn every_flipped_bit_of_a_stored_segment_is_found_or_rebuilt() {
    let bytes = stored(&[1]);
    let want = texts();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert_eq!(read(&[1], &changed).unwrap(), want, "one damaged page loses nothing: byte {at}");
        // All three pages of a block.
        changed[at] ^= 0x55;
        let far = (at + 1_200) % bytes.len();
        changed[far] ^= 0x55;
        match read(&[1], &changed) {
            Ok(found) => assert_eq!(found, want, "bytes {at} and {far}"),
            Err(error) => assert!(matches!(error, ReadError::Damaged { .. }), "{error}"),
        }
    }
}

/// The range of each block in the file, with its recovery record.
fn blocks(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let reader = Reader::open(file(&[1], bytes), Path::new("s")).unwrap();
    let starts: Vec<usize> = reader.footer().blocks.iter().map(|block| block.offset as usize).collect();
    starts.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

#[test]
fn swapped_blocks_are_found() {
    let file_bytes = |keys: &[u8]| {
        let file = file(keys, b"");
        let mut writer = Writer::start(Arc::clone(&file), FileHeader { id: ID, version: 1 }).unwrap();
        for (ms, text) in (1..).zip([b"first\n", b"other\n", b"third\n"]) {
            writer.append(&mut builder(ms, text), Codec::Plain).unwrap();
        }
        writer.seal(SegmentOrigin::default()).unwrap();
        bytes_of(&file)
    };
    let mut bytes = file_bytes(&[1]);
    let (left, right) = (blocks(&bytes)[0].clone(), blocks(&bytes)[1].clone());
    assert_eq!(left.len(), right.len());
    let (one, two) = (bytes[left.clone()].to_vec(), bytes[right.clone()].to_vec());
    bytes[left].copy_from_slice(&two);
    bytes[right].copy_from_slice(&one);
    // With the footer, its checksums tell. Without it, the recovery records are those of the swapped blocks.
    assert!(matches!(read(&[1], &bytes), Err(ReadError::Damaged { .. })));
    let footer_at = bytes.len() - 4_500;
    bytes[footer_at..].fill(0);
    let verified = VerifiedSegment::open(file(&[1], &bytes), Path::new("s"), Some(ID)).unwrap();
    let what: Vec<&str> = verified.health().harmful.iter().map(|damage| damage.what).collect();
    assert_eq!(what.iter().filter(|what| what.contains("does not decrypt")).count(), 2, "{what:?}");
    assert!(verified.health().records <= 1);
}

#[test]
fn copied_blocks_are_under_the_key_of_the_new_file() {
    let bytes = stored(&[1]);
    for to in [&[][..], &[2, 1]] {
        let from = Reader::open(file(&[1], &bytes), Path::new("s")).unwrap();
        let target = file(to, b"");
        let header = FileHeader { id: Id::from_bits(9), version: 1 };
        let mut writer = Writer::start(Arc::clone(&target), header).unwrap();
        (0..3).for_each(|block| writer.copy_block(&from.packed_block(block).unwrap()).unwrap());
        writer.seal(SegmentOrigin::default()).unwrap();
        let copy = bytes_of(&target);
        assert_eq!(read(&to[..to.len().min(1)], &copy).unwrap(), texts());
        assert_eq!(has(&copy, NEEDLE), to.is_empty());
        let reader = Reader::open(target, Path::new("t")).unwrap();
        assert!(reader.damaged_redundancy().unwrap().is_empty());
        // A repair writes the same segment, encrypted.
        let verified = VerifiedSegment::open(file(to, &copy), Path::new("t"), None).unwrap();
        assert!(verified.health().is_intact());
        let repaired = file(to, b"");
        verified.write(Arc::clone(&repaired), Path::new("u"), Id::from_bits(9)).unwrap();
        assert_eq!(read(to, &bytes_of(&repaired)).unwrap(), texts());
    }
}

fn header(kind: FrameKind, stream: u32, sequence: u32, text: &[u8]) -> FrameHeader {
    FrameHeader {
        body_len: text.len() as u32,
        row_meta_len: 0,
        first_id: Id::new(Millis(60), Producer::new(5), sequence),
        count: if kind == FrameKind::Records { text.iter().filter(|byte| **byte == b'\n').count() as u32 } else { 0 },
        stream,
        accepted: Millis(70),
        kind,
        layout_bits: 0,
    }
}

/// A queue segment with a stream and frames of these texts, and where each frame ends.
fn queue(keys: &[u8], texts: &[&[u8]], is_sealed: bool) -> (Vec<u8>, Vec<usize>) {
    let file = file(keys, b"");
    let cipher = frame_cipher(&*file, ID);
    let append = |header: FrameHeader, body: &[u8]| {
        let frame = match &cipher {
            Some(cipher) => header.encode_encrypted(checksum_seed(ID), &[body], &**cipher).unwrap(),
            None => [&header.encode(checksum_seed(ID), &[body])[..], body].concat(),
        };
        file.append(&[&frame]).unwrap();
        file.size().unwrap() as usize
    };
    file.append(&[&encode_header(FileHeader { id: ID, version: 1 }.with_encryption(cipher.is_some()))]).unwrap();
    let labels = Labels::new([("app", LABEL)]).unwrap();
    let (_, body) = FrameHeader::stream(0, &labels, Millis(0));
    let mut ends = vec![append(header(FrameKind::Stream, 0, 0, &body), &body)];
    let mut summary = RecordSummary::default();
    for (sequence, text) in (0..).zip(texts) {
        let header = header(FrameKind::Records, 0, sequence * 10, text);
        let mut rows = Rows::default();
        rows.push_run(header.first_id, header.count);
        summary.add(&rows, text.len());
        ends.push(append(header, text));
    }
    if is_sealed {
        let seal = Seal::new(file.size().unwrap(), &summary, &[labels]);
        file.append(&[&seal.encode(ID, cipher.as_deref()).unwrap()]).unwrap();
    }
    (bytes_of(&file), ends)
}

fn scan(keys: &[u8], bytes: &[u8]) -> Result<(u64, usize, bool), ReadError> {
    let found = scan_segment(&file(keys, bytes), Path::new("q"), ID)?;
    Ok((found.summary.records, found.damage.len() + found.harmless.len(), found.seal.is_some()))
}

#[test]
fn a_queue_segment_shows_no_content_without_its_key() {
    let line = [NEEDLE, b"\n"].concat();
    for is_sealed in [false, true] {
        let (bytes, ends) = queue(&[1], &[&line, &line, b"x\n"], is_sealed);
        assert!(!has(&bytes, NEEDLE) && !has(&bytes, LABEL.as_bytes()));
        assert_eq!(scan(&[2, 1], &bytes).unwrap(), (3, 0, is_sealed));
        assert!(matches!(scan(&[2], &bytes), Err(ReadError::MissingKey { .. })));
        assert!(matches!(scan(&[], &bytes), Err(ReadError::MissingKey { .. })));
        let end = *ends.last().unwrap() as u64;
        let mut frames = FrameReader::new(file(&[1], &bytes), "q".into(), ID, HEADER_LEN as u64, end, Vec::new());
        let chunk = frames.next_chunk().unwrap().unwrap();
        assert_eq!((chunk.text, chunk.labels.get("app")), (&line[..], Some(LABEL)));
        let (text, slice) = frames.take_chunk().unwrap().unwrap();
        assert_eq!((&text[slice.range], slice.rows.count), (&line[..], 1));
        let (other, _) = queue(&[], &[&line], is_sealed);
        assert_eq!(scan(&[1], &other).unwrap(), (1, 0, is_sealed), "files that are not encrypted stay readable");
    }
}

#[test]
fn every_flipped_bit_of_a_queue_segment_is_found() {
    let (bytes, _) = queue(&[1], &[b"first\n", b"other\n"], true);
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let found = scan(&[1], &changed);
        assert!(!matches!(found, Ok((2, 0, true)) | Err(ReadError::MissingKey { .. })), "bit {bit}: {found:?}");
    }
}

#[test]
fn frames_with_swapped_bodies_are_found() {
    let (bytes, ends) = queue(&[1], &[b"first\n", b"other\n"], false);
    let frame = |at: usize| bytes[ends[at]..ends[at + 1]].to_vec();
    let (mut one, two) = (frame(0), frame(1));
    one.truncate(FrameHeader::LEN);
    one.extend_from_slice(&two[FrameHeader::LEN..]);
    let crc = crc32c::crc32c_append(checksum_seed(ID), &one[8..]);
    one[4..8].copy_from_slice(&crc.to_le_bytes());
    let swapped = [&bytes[..ends[0]], &one, &two].concat();
    let found = scan_segment(&file(&[1], &swapped), Path::new("q"), ID).unwrap();
    assert_eq!((found.summary.records, found.damage.len()), (1, 1));
    assert!(found.damage[0].what.contains("does not decrypt"));
}

#[test]
fn a_rewritten_queue_segment_is_under_the_first_key() {
    let (bytes, _) = queue(&[1], &[b"first\n", b"other\n"], true);
    let from = file(&[2, 1], &bytes);
    let found = scan_segment(&from, Path::new("q"), ID).unwrap();
    let new = Id::from_bits(100);
    let to = file(&[2, 1], b"");
    rewrite(&from, Path::new("q"), ID, &found, &*to, new).unwrap();
    let rewritten = bytes_of(&to);
    let found = scan_segment(&file(&[2], &rewritten), Path::new("q"), new).unwrap();
    assert_eq!((found.summary.records, found.damage.len(), found.seal.is_some()), (2, 0, true));
}

#[test]
fn the_largest_frame_can_be_encrypted() {
    let text = [vec![b'x'; FrameHeader::BODY_BYTES_MAX - 1], b"\n".to_vec()].concat();
    let (bytes, ends) = queue(&[1], &[&text], true);
    assert_eq!(ends[1] - ends[0], FrameHeader::LEN + text.len() + ENCRYPTION_OVERHEAD);
    assert_eq!(scan(&[1], &bytes).unwrap(), (1, 0, true));
}

/// Files of a released format: see `fixtures`.
#[test]
fn encrypted_segments_of_each_version() {
    let with_keys = |name: &str, make: &dyn Fn() -> Vec<u8>| {
        let plain = fixtures::open(name, make);
        file(&[2, 1], &bytes_of(&plain))
    };
    let name = "stored-3-encrypted.seg";
    let written = || fixtures::stored_bytes_of(&*fs(&[1]), 3);
    fixtures::check_stored_file(with_keys(name, &written), name, 3);
    let name = "queue-1-encrypted.pending";
    let written = || queue(&[1], &[b"first\n", b"other\n"], true).0;
    let file = with_keys(name, &written);
    assert_eq!(scan_segment(&file, Path::new(name), ID).unwrap().summary.records, 2);
    assert!(bytes_of(&file) == written(), "what is written has changed: give it another version");
}

/// Decoders of bytes whose checksums and keys are right but whose content is hostile.
#[test]
fn hostile_content_under_the_right_key_is_damage() {
    let cipher: Arc<dyn FileCipher> = frame_cipher(&*file(&[1], b""), ID).unwrap();
    let hostile = header(FrameKind::Records, 7, 0, b"text\n");
    for (header, body) in [
        (hostile, &b"text\n"[..]),
        (FrameHeader { count: 3, ..hostile }, b"text\n"),
        (FrameHeader { layout_bits: 15, row_meta_len: 5, ..hostile }, b"text\n"),
        (FrameHeader { kind: FrameKind::Stream, count: 0, ..hostile }, b"\xff\xff\xff\n\n"),
    ] {
        let frame = header.encode_encrypted(checksum_seed(ID), &[body], &*cipher).unwrap();
        let head = encode_header(FileHeader { id: ID, version: 2 }.with_encryption(true));
        let found = scan_segment(&file(&[1], &[&head[..], &frame].concat()), Path::new("q"), ID).unwrap();
        assert_eq!(found.summary.records, 0);
    }
}

proptest! {
    #[test]
    fn any_text_round_trips(
        lines in prop::collection::vec(prop::collection::vec(any::<u8>().prop_filter("line", |byte| *byte != b'\n'), 0..40), 1..30),
        codec in prop::sample::select(vec![Codec::Plain, Codec::Lz4, Codec::Zstd(1), Codec::ColumnsAlways(1)]),
    ) {
        let text: Vec<u8> = lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect();
        let target = file(&[1], b"");
        let mut writer = Writer::start(Arc::clone(&target), FileHeader { id: ID, version: 1 }).unwrap();
        writer.append(&mut builder(7, &text), codec).unwrap();
        writer.seal(SegmentOrigin::default()).unwrap();
        prop_assert_eq!(read(&[1], &bytes_of(&target)).unwrap(), vec![text.clone()]);
        let (bytes, _) = queue(&[1], &[&text], true);
        prop_assert_eq!(scan(&[1], &bytes).unwrap(), (lines.len() as u64, 0, true));
    }

    #[test]
    fn any_bytes_in_place_of_an_encrypted_file_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0_usize..4_000) {
        let mut stored = stored(&[1]);
        let at = at.min(stored.len());
        let end = (at + bytes.len()).min(stored.len());
        stored.splice(at..end, bytes.iter().copied());
        let _ = read(&[1], &stored);
        let _ = VerifiedSegment::open(file(&[1], &stored), Path::new("s"), Some(ID));
        bytes.splice(0..0, encode_header(FileHeader { id: ID, version: 1 }.with_encryption(true)));
        let _ = scan(&[1], &bytes);
    }
}
