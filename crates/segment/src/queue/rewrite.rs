//! Rewrites the whole frames of a queue segment as an intact, closed segment.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bucksaw_env::{File, FileCipher};
use bucksaw_record::{Id, Labels};

use super::{
    FrameReader, HEADER_LEN, Seal, SegmentScan, VERSION, checksum_seed, encode_header, frame_cipher, read_header,
};
use crate::{FileHeader, FrameHeader, ReadError};

/// Bytes per write.
const WRITE_BYTES: usize = 1 << 20;

/// Writes the frames of `scan`, a scan of segment `id`, as segment `new` into the empty file `to`, then a seal, and syncs it.
///
/// # Errors
/// [`ReadError`] if a file cannot be read or written.
pub fn rewrite(
    from: &Arc<dyn File>,
    path: &Path,
    id: Id,
    scan: &SegmentScan,
    to: &dyn File,
    new: Id,
) -> Result<(), ReadError> {
    let mut frames = FrameReader::new(Arc::clone(from), path.to_owned(), id, HEADER_LEN as u64, scan.end, Vec::new());
    let cipher = frame_cipher(to, new);
    let mut out = SegmentOutput { to, path, seed: checksum_seed(new), cipher, offset: 0, bytes: Vec::new() };
    let version = read_header(&**from, path).map_or(VERSION, |header| header.version);
    let header = FileHeader { id: new, version }.with_encryption(out.cipher.is_some());
    out.write(&[&encode_header(header)])?;
    // Each stream is declared before its first frame, under a new number.
    let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
    let mut streams: Vec<Labels> = Vec::new();
    for place in &scan.positions {
        frames.seek(place.offset);
        let Some(frame) = frames.next_frame()? else {
            return Err(ReadError::damaged(path, place.offset, "the frame is missing"));
        };
        let stream = match numbers.get(&place.stream) {
            Some(stream) => *stream,
            None => {
                let stream = streams.len() as u32;
                let labels = scan.streams.get(place.stream as usize).cloned().unwrap_or_default();
                out.write_stream_frame(stream, &labels, &frame.header)?;
                numbers.insert(place.stream, stream);
                streams.push(labels);
                stream
            }
        };
        out.write_frame(&FrameHeader { stream, ..frame.header }, &[frame.row_meta(), frame.text()])?;
    }
    let seal = Seal::new(out.offset, &scan.summary, &streams);
    let seal = seal.encode(new, out.cipher.as_deref()).map_err(ReadError::io(path))?;
    out.write(&[&seal])?;
    out.flush()?;
    to.sync().map_err(ReadError::io(path))
}

struct SegmentOutput<'a> {
    to: &'a dyn File,
    path: &'a Path,
    seed: u32,
    cipher: Option<Arc<dyn FileCipher>>,
    offset: u64,
    bytes: Vec<u8>,
}

impl SegmentOutput<'_> {
    fn write_stream_frame(&mut self, stream: u32, labels: &Labels, before: &FrameHeader) -> Result<(), ReadError> {
        let (header, body) = FrameHeader::stream(stream, labels, before.accepted);
        self.write_frame(&header, &[&body])
    }

    fn write_frame(&mut self, header: &FrameHeader, body: &[&[u8]]) -> Result<(), ReadError> {
        if let Some(cipher) = &self.cipher {
            let frame = header.encode_encrypted(self.seed, body, &**cipher).map_err(ReadError::io(self.path))?;
            return self.write(&[&frame]);
        }
        self.write(&[&header.encode(self.seed, body)])?;
        self.write(body)
    }

    fn write(&mut self, parts: &[&[u8]]) -> Result<(), ReadError> {
        for part in parts {
            self.bytes.extend_from_slice(part);
            self.offset += part.len() as u64;
        }
        if self.bytes.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ReadError> {
        self.to.append(&[&self.bytes]).map_err(ReadError::io(self.path))?;
        self.bytes.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bucksaw_env::{Fs, sim};
    use bucksaw_record::{Millis, Producer};
    use proptest::prelude::*;

    use super::*;
    use crate::FrameKind;
    use crate::queue::scan_segment;

    const ID: Id = Id::from_bits(99);
    const NEW: Id = Id::from_bits(100);

    type FrameRecord = (Labels, Id, Vec<u8>);

    fn create(bytes: &[u8]) -> Arc<dyn File> {
        let file = sim::Fs::new().create(Path::new("q")).unwrap();
        file.append(&[bytes]).unwrap();
        file
    }

    /// A closed segment of two streams and a third that no record has.
    fn segment() -> Vec<u8> {
        let mut out = encode_header(FileHeader { id: ID, version: VERSION }).to_vec();
        let frame = |kind, stream, first: Id, count, body: &[u8]| {
            let (body_len, accepted) = (body.len() as u32, Millis(70));
            let header = FrameHeader {
                body_len,
                row_meta_len: 0,
                first_id: first,
                count,
                stream,
                accepted,
                kind,
                layout_bits: 0,
            };
            [&header.encode(checksum_seed(ID), &[body])[..], body].concat()
        };
        for (stream, app) in (0..).zip(["app=web", "app=db", "app=unused"]) {
            let mut body = Vec::new();
            Labels::parse(app).unwrap().encode(&mut body);
            out.extend(frame(FrameKind::Stream, stream, Id::MIN, 0, &body));
        }
        for number in 0..12_u32 {
            let text: String = (0..20).map(|line| format!("line {line} of frame {number}\n")).collect();
            let first = Id::new(Millis(60 + u64::from(number)), Producer::new(5), number * 100);
            out.extend(frame(FrameKind::Records, number % 2, first, 20, text.as_bytes()));
        }
        let file = create(&out);
        let found = scan_segment(&file, Path::new("q"), ID).unwrap();
        out.extend(Seal::new(found.end, &found.summary, &found.streams).encode(ID, None).unwrap());
        out
    }

    fn records(file: &Arc<dyn File>, id: Id, found: &SegmentScan) -> Vec<FrameRecord> {
        let mut frames =
            FrameReader::new(Arc::clone(file), "q".into(), id, HEADER_LEN as u64, found.end, found.streams.clone());
        let mut all = Vec::new();
        for place in &found.positions {
            frames.seek(place.offset);
            let chunk = frames.next_chunk().unwrap().unwrap();
            let rows = (0..).zip(chunk.records());
            all.extend(rows.map(|(row, text)| (chunk.labels.clone(), chunk.rows.id(row).unwrap(), text.to_vec())));
        }
        all
    }

    /// The records of a damaged segment before and after it was rewritten.
    fn rewritten(damaged: &[u8], new: Id) -> Option<[Vec<FrameRecord>; 2]> {
        let file = create(damaged);
        let found = scan_segment(&file, Path::new("q"), ID).ok()?;
        let to = create(b"");
        rewrite(&file, Path::new("q"), ID, &found, &*to, new).unwrap();
        let again = scan_segment(&to, Path::new("q"), new).unwrap();
        assert!(again.seal.is_some() && again.damage.is_empty() && again.harmless.is_empty(), "{again:?}");
        assert_eq!(again.summary, found.summary);
        Some([records(&file, ID, &found), records(&to, new, &again)])
    }

    #[test]
    fn an_intact_segment_is_unchanged() {
        let [before, after] = rewritten(&segment(), ID).unwrap();
        assert_eq!((before.len(), &before), (240, &after));
        // Also without declarations: the seal repeats the labels.
        let mut damaged = segment();
        damaged[HEADER_LEN + 5] ^= 1;
        damaged[3] ^= 1;
        assert_eq!(rewritten(&damaged, ID).unwrap(), [before, after]);
    }

    proptest! {
        #[test]
        fn all_whole_frames_are_kept(flips in prop::collection::vec((any::<usize>(), 0..8_u8), 0..6), cut in any::<usize>(), cuts in any::<bool>()) {
            let bytes = segment();
            let stored = rewritten(&bytes, NEW).unwrap()[0].clone();
            let mut damaged = bytes;
            if cuts {
                damaged.truncate(cut % damaged.len());
            }
            let length = damaged.len().max(1);
            for (at, bit) in flips {
                damaged.iter_mut().skip(at % length).take(1).for_each(|byte| *byte ^= 1 << bit);
            }
            if let Some([before, after]) = rewritten(&damaged, NEW) {
                prop_assert_eq!(&before, &after);
                prop_assert!(after.iter().all(|record| stored.contains(record)));
            }
        }
    }

    #[test]
    fn frames_larger_than_one_write_are_rewritten() {
        let text = vec![b'x'; WRITE_BYTES + 9];
        let text = [text, b"\n".to_vec()].concat();
        let header = FrameHeader {
            body_len: text.len() as u32,
            row_meta_len: 0,
            first_id: Id::new(Millis(60), Producer::new(5), 0),
            count: 1,
            stream: 0,
            accepted: Millis(70),
            kind: FrameKind::Records,
            layout_bits: 0,
        };
        let mut bytes = super::encode_header(FileHeader { id: ID, version: VERSION }).to_vec();
        let mut body = Vec::new();
        Labels::default().encode(&mut body);
        let body_len = body.len() as u32;
        let declared = FrameHeader { body_len, first_id: Id::MIN, count: 0, kind: FrameKind::Stream, ..header };
        bytes.extend_from_slice(&declared.encode(checksum_seed(ID), &[&body]));
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(&header.encode(checksum_seed(ID), &[&text]));
        bytes.extend_from_slice(&text);
        let [before, after] = rewritten(&bytes, NEW).unwrap();
        assert_eq!((before.len(), &before), (1, &after));
    }
}
