use std::path::Path;
use std::sync::Arc;

use bucksaw_env::{File, Fs, sim};
use bucksaw_record::{Id, Labels, Millis, Producer};

use super::*;
use crate::{FrameHeader, FrameKind};

const ID: Id = Id::from_bits(0x1234_5678_9abc_def0_1234);
const HEADER: FileHeader = FileHeader { id: ID, version: VERSION };

fn frame(kind: FrameKind, stream: u32, first: Id, count: u32, text: &[u8]) -> Vec<u8> {
    let header = FrameHeader {
        body_len: text.len() as u32,
        row_meta_len: 0,
        first_id: first,
        count,
        stream,
        accepted: Millis(70),
        kind,
        layout_bits: 0,
    };
    let mut bytes = header.encode(checksum_seed(ID), &[text]).to_vec();
    bytes.extend_from_slice(text);
    bytes
}

fn records(sequence: u32, text: &[u8]) -> Vec<u8> {
    let count = text.iter().filter(|byte| **byte == b'\n').count() as u32;
    frame(FrameKind::Records, 0, Id::new(Millis(60), Producer::new(5), sequence), count, text)
}

fn stream(number: u32) -> Vec<u8> {
    let mut body = Vec::new();
    Labels::parse("app=web").unwrap().encode(&mut body);
    frame(FrameKind::Stream, number, Id::MIN, 0, &body)
}

fn file(parts: &[Vec<u8>]) -> Arc<dyn File> {
    let file = sim::Fs::new().create(Path::new("q")).unwrap();
    file.append(&[&encode_header(HEADER)]).unwrap();
    parts.iter().for_each(|part| file.append(&[part]).unwrap());
    file
}

fn found(parts: &[Vec<u8>]) -> (u64, u64, Vec<&'static str>) {
    let scan = scan_segment(&file(parts), Path::new("q"), ID).unwrap();
    (scan.summary.records, scan.tail_bytes, scan.damage.iter().map(|damage| damage.what).collect())
}

#[test]
fn header_bytes_are_the_documented_ones() {
    let bytes = encode_header(HEADER);
    assert_eq!((&bytes[..8], bytes[8]), (&b"BSWQUEUE"[..], 2));
    assert_eq!(bytes[16..], ID.bits().to_le_bytes());
}

#[test]
fn newer_and_damaged_headers_are_distinguished() {
    let make = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = encode_header(HEADER).to_vec();
        change(&mut bytes);
        let file = sim::Fs::new().create(Path::new("q")).unwrap();
        file.append(&[&bytes]).unwrap();
        read_header(&*file, Path::new("q"))
    };
    assert_eq!(make(&|_| {}).unwrap(), HEADER);
    assert!(matches!(make(&|bytes| bytes.truncate(31)), Err(ReadError::Damaged { .. })));
    assert!(matches!(make(&|bytes| bytes[0] = 0), Err(ReadError::Damaged { .. })));
    assert!(matches!(make(&|bytes| bytes[20] ^= 1), Err(ReadError::Damaged { .. })));
    let newer = make(&|bytes| *bytes = encode_header(FileHeader { version: VERSION + 1, ..HEADER }).to_vec());
    assert!(matches!(newer, Err(ReadError::Version { found: 3, known: 2, .. })));
}

#[test]
fn a_scan_finds_every_whole_frame() {
    let (one, two, three) = (records(0, b"a\nb\n"), records(2, b"c\n"), records(3, b"d\ne\nf\n"));
    let torn = |frame: &[u8], keep: usize| frame[..keep].to_vec();
    let broken = |frame: &[u8]| {
        let mut frame = frame.to_vec();
        *frame.last_mut().unwrap() ^= 1;
        frame
    };
    assert_eq!(found(&[]), (0, 0, vec![]));
    assert_eq!(found(&[stream(0), one.clone(), two.clone(), three.clone()]), (6, 0, vec![]));
    assert_eq!(found(&[stream(0), one.clone(), torn(&three, 58)]), (2, 58, vec![]));
    assert_eq!(found(&[stream(0), one.clone(), torn(&three, 3)]), (2, 3, vec![]));
    let checksum = "the checksum of the frame is wrong";
    assert_eq!(found(&[stream(0), one.clone(), broken(&two), three.clone()]), (5, 0, vec![checksum]));
    assert_eq!(found(&[stream(0), one.clone(), vec![0; 5_000], three.clone()]), (5, 0, vec!["no frame starts here"]));
    assert_eq!(found(&[stream(0), one.clone(), broken(&three)]).0, 2);
    // Records of an undeclared stream are missing, not torn.
    let missing = "the labels of the frame's stream are missing";
    assert_eq!(found(&[one, two, three]), (0, 0, vec![missing; 3]));
}

/// The frames and their seal.
fn sealed(parts: &[Vec<u8>]) -> Vec<u8> {
    let parts = [vec![encode_header(HEADER).to_vec()], parts.to_vec()].concat().concat();
    let found = scan_segment(&raw(&parts), Path::new("q"), ID).unwrap();
    let seal = Seal::new(parts.len() as u64, &found.summary, &found.streams).encode(ID, None).unwrap();
    [parts, seal].concat()
}

fn raw(bytes: &[u8]) -> Arc<dyn File> {
    let file = sim::Fs::new().create(Path::new("q")).unwrap();
    file.append(&[bytes]).unwrap();
    file
}

fn texts(file: &Arc<dyn File>, scan: &SegmentScan) -> Vec<(Labels, Vec<u8>)> {
    let read = |place: &FramePosition| {
        let streams = scan.streams.clone();
        let mut frames = FrameReader::new(Arc::clone(file), "q".into(), ID, place.offset, scan.end, streams);
        let chunk = frames.next_chunk().unwrap().unwrap();
        (chunk.labels.clone(), chunk.text.to_vec())
    };
    scan.positions.iter().map(read).collect()
}

#[test]
fn a_flipped_bit_in_a_sealed_file_loses_at_most_one_frame_and_is_reported() {
    let other = frame(FrameKind::Records, 1, Id::new(Millis(61), Producer::new(5), 3), 1, b"z\n");
    let bytes = sealed(&[stream(0), records(0, b"a\nb\n"), stream(1), other, records(7, b"c\n")]);
    let whole = scan_segment(&raw(&bytes), Path::new("q"), ID).unwrap();
    let want = texts(&raw(&bytes), &whole);
    assert_eq!((want.len(), whole.missing_records(), &whole.tail), (3, Some(0), &SegmentTail::Clean));
    assert!(whole.damage.is_empty() && whole.harmless.is_empty());
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let file = raw(&damaged);
        let found = scan_segment(&file, Path::new("q"), ID).unwrap();
        let texts = texts(&file, &found);
        assert!(texts.iter().all(|text| want.contains(text)) && texts.len() >= 2, "bit {bit}");
        let is_reported = !found.damage.is_empty() || !found.harmless.is_empty() || found.seal.is_none();
        assert!(is_reported, "bit {bit}");
        assert_eq!(texts.len() < 3, !found.damage.is_empty(), "bit {bit}: {found:?}");
    }
}

#[test]
fn a_truncated_sealed_file_has_no_seal() {
    let bytes = sealed(&[stream(0), records(0, b"a\nb\n"), records(7, b"c\n")]);
    for keep in HEADER_LEN..bytes.len() {
        let found = scan_segment(&raw(&bytes[..keep]), Path::new("q"), ID).unwrap();
        assert!(found.seal.is_none() && found.damage.is_empty(), "{keep}");
    }
    assert!(scan_segment(&raw(&bytes[..HEADER_LEN - 1]), Path::new("q"), ID).is_err());
}

#[test]
fn a_seal_with_more_records_than_the_file_is_damage() {
    let bytes = sealed(&[stream(0), records(0, b"a\nb\n")]);
    let at = Seal::find(&*raw(&bytes), Path::new("q"), ID, bytes.len() as u64).unwrap().unwrap();
    let more = Seal { records: at.records + 3, ..at.clone() };
    let bytes = [&bytes[..at.offset as usize], &more.encode(ID, None).unwrap()].concat();
    let found = scan_segment(&raw(&bytes), Path::new("q"), ID).unwrap();
    assert_eq!((found.damage.len(), found.missing_records(), found.summary.records), (1, Some(3), 2), "{found:?}");
}

#[test]
fn a_tail_that_no_killed_process_leaves_is_damaged() {
    let check = |tail: &[u8], torn: bool| {
        let found = scan_segment(&file(&[stream(0), records(0, b"a\n"), tail.to_vec()]), Path::new("q"), ID).unwrap();
        let want =
            if tail.is_empty() { found.tail == SegmentTail::Clean } else { (found.tail == SegmentTail::Torn) == torn };
        assert!(want && found.summary.records == 1 && found.damage.is_empty(), "{tail:?} {:?}", found.tail);
    };
    let last = records(2, b"bcdef\n");
    (0..last.len()).for_each(|keep| check(&last[..keep], true));
    check(&[0; 10], false);
    check(&[0; 100], false);
    for bit in 0..last.len() * 8 {
        let mut damaged = last.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        check(&damaged, false);
    }
}

#[test]
fn a_log_line_that_looks_like_a_frame_is_ignored() {
    let mut forged = records(9, b"forged\n");
    let other_seed = {
        let text = b"forged\n";
        let id = Id::new(Millis(60), Producer::new(5), 9);
        let header = FrameHeader {
            body_len: text.len() as u32,
            row_meta_len: 0,
            first_id: id,
            count: 1,
            stream: 0,
            accepted: Millis(70),
            kind: FrameKind::Records,
            layout_bits: 0,
        };
        header.encode(checksum_seed(Id::MIN), &[text])
    };
    forged[..FrameHeader::LEN].copy_from_slice(&other_seed);
    forged.push(b'\n');
    let lines = forged.iter().filter(|byte| **byte == b'\n').count() as u32;
    let mut carrier = frame(FrameKind::Records, 0, Id::new(Millis(60), Producer::new(5), 0), lines, &forged);
    carrier[20] ^= 1;
    assert_eq!(found(&[stream(0), carrier, records(50, b"x\n")]).0, 1);
}

#[test]
fn a_search_for_frames_is_bounded() {
    let mut header = records(0, b"a\n")[..FrameHeader::LEN].to_vec();
    header[8..12].copy_from_slice(&(1_u32 << 20).to_le_bytes());
    let parts = vec![header.repeat(20_000), vec![0; 1 << 20]];
    let scan = scan_segment(&file(&parts), Path::new("q"), ID).unwrap();
    assert_eq!(scan.summary.records, 0);
    assert!(!scan.damage.is_empty());
}

#[test]
fn chunks_and_positions_agree() {
    let file = file(&[stream(0), records(4, b"a\nb\n"), records(0, b"c\n")]);
    let size = file.size().unwrap();
    let (places, streams) = index_frames(&file, Path::new("q"), ID, size, Vec::new()).unwrap();
    let scan = scan_segment(&file, Path::new("q"), ID).unwrap();
    assert_eq!((places.clone(), streams.clone()), (scan.positions, scan.streams));
    let mut frames = FrameReader::new(file, "q".into(), ID, places[1].offset, size, streams);
    let chunk = frames.next_chunk().unwrap().unwrap();
    assert_eq!(
        (chunk.text, chunk.rows.id(0), chunk.labels.get("app")),
        (&b"c\n"[..], Some(places[1].low), Some("web"))
    );
    assert!(frames.next_chunk().unwrap().is_none());
}

#[test]
fn a_stream_number_is_at_most_the_number_of_frames_that_fit_before_it() {
    let many: Vec<Vec<u8>> = (0..200).map(stream).collect();
    let file_of_many = file(&many);
    let size = file_of_many.size().unwrap();
    let mut frames = FrameReader::new(file_of_many, "q".into(), ID, HEADER_LEN as u64, size, Vec::new());
    (0..200).for_each(|number| assert!(frames.next_frame().unwrap().is_some(), "{number}"));
    for number in [10, u32::MAX] {
        let file = file(&[stream(0), stream(number)]);
        let size = file.size().unwrap();
        let mut frames = FrameReader::new(file, "q".into(), ID, HEADER_LEN as u64, size, Vec::new());
        assert!(frames.next_frame().unwrap().is_some());
        assert!(matches!(frames.next_frame(), Err(ReadError::Damaged { .. })), "{number}");
    }
}
