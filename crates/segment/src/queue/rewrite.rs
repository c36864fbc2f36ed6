//! The whole frames of a queue segment, written anew as a sound and closed one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bucksaw_doors::File;
use bucksaw_record::{Id, Labels};

use super::{Frames, HEADER_LEN, Seal, Survey, header, seed};
use crate::{Header, Kind, ReadError};

/// What is written at once.
const WRITE_BYTES: usize = 1 << 20;

/// Writes the frames that a survey of the segment `id` has found into `to`, a file that was just created, as the segment
/// `new`, ends it with a seal and syncs it.
///
/// # Errors
/// [`ReadError`] when one of the files cannot be read or written.
pub fn rewrite(
    from: &Arc<dyn File>,
    path: &Path,
    id: Id,
    survey: &Survey,
    to: &dyn File,
    new: Id,
) -> Result<(), ReadError> {
    let mut frames = Frames::new(Arc::clone(from), path.to_owned(), id, HEADER_LEN as u64, survey.end, Vec::new());
    let mut out = Output { to, path, seed: seed(new), at: 0, bytes: Vec::new() };
    out.put(&[&header(new)])?;
    // Streams are declared anew where they are first used, in the order of their numbers.
    let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
    let mut streams: Vec<Labels> = Vec::new();
    for place in &survey.places {
        frames.seek(place.at);
        let Some(frame) = frames.next_frame()? else {
            return Err(ReadError::damaged(path, place.at, "the frame is gone"));
        };
        let stream = match numbers.get(&place.stream) {
            Some(stream) => *stream,
            None => {
                let stream = streams.len() as u32;
                let labels = survey.streams.get(place.stream as usize).cloned().unwrap_or_default();
                out.declare(stream, &labels, &frame.header)?;
                numbers.insert(place.stream, stream);
                streams.push(labels);
                stream
            }
        };
        out.frame(&Header { stream, ..frame.header }, &[frame.sides(), frame.text()])?;
    }
    let seal = Seal::new(out.at, &survey.reach, &streams);
    out.put(&[&seal.encode(new)])?;
    out.flush()?;
    to.sync().map_err(ReadError::io(path))
}

struct Output<'a> {
    to: &'a dyn File,
    path: &'a Path,
    seed: u32,
    at: u64,
    bytes: Vec<u8>,
}

impl Output<'_> {
    fn declare(&mut self, stream: u32, labels: &Labels, before: &Header) -> Result<(), ReadError> {
        let mut body = Vec::new();
        labels.encode(&mut body);
        let header = Header {
            body_len: body.len() as u32,
            sides_len: 0,
            first: Id::MIN,
            count: 0,
            stream,
            accepted: before.accepted,
            kind: Kind::Stream,
            flags: 0,
        };
        self.frame(&header, &[&body])
    }

    fn frame(&mut self, header: &Header, body: &[&[u8]]) -> Result<(), ReadError> {
        self.put(&[&header.seal(self.seed, body)])?;
        self.put(body)
    }

    fn put(&mut self, parts: &[&[u8]]) -> Result<(), ReadError> {
        for part in parts {
            self.bytes.extend_from_slice(part);
            self.at += part.len() as u64;
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
    use bucksaw_doors::{Fs, sim};
    use bucksaw_record::{Millis, Producer};
    use proptest::prelude::*;

    use super::*;
    use crate::queue::survey;

    const ID: Id = Id::from_bits(99);
    const NEW: Id = Id::from_bits(100);

    type Record = (Labels, Id, Vec<u8>);

    fn create(bytes: &[u8]) -> Arc<dyn File> {
        let file = sim::Fs::new().create(Path::new("q")).unwrap();
        file.append(&[bytes]).unwrap();
        file
    }

    /// A closed segment of two streams and a third that no record has.
    fn segment() -> Vec<u8> {
        let mut out = header(ID).to_vec();
        let frame = |kind, stream, first: Id, count, body: &[u8]| {
            let (body_len, accepted) = (body.len() as u32, Millis(70));
            let header = Header { body_len, sides_len: 0, first, count, stream, accepted, kind, flags: 0 };
            [&header.seal(seed(ID), &[body])[..], body].concat()
        };
        for (stream, app) in (0..).zip(["app=web", "app=db", "app=unused"]) {
            let mut body = Vec::new();
            Labels::parse(app).unwrap().encode(&mut body);
            out.extend(frame(Kind::Stream, stream, Id::MIN, 0, &body));
        }
        for number in 0..12_u32 {
            let text: String = (0..20).map(|line| format!("line {line} of frame {number}\n")).collect();
            let first = Id::new(Millis(60 + u64::from(number)), Producer::new(5), number * 100);
            out.extend(frame(Kind::Records, number % 2, first, 20, text.as_bytes()));
        }
        let file = create(&out);
        let found = survey(&file, Path::new("q"), ID).unwrap();
        out.extend(Seal::new(found.end, &found.reach, &found.streams).encode(ID));
        out
    }

    fn records(file: &Arc<dyn File>, id: Id, found: &Survey) -> Vec<Record> {
        let mut frames =
            Frames::new(Arc::clone(file), "q".into(), id, HEADER_LEN as u64, found.end, found.streams.clone());
        let mut all = Vec::new();
        for place in &found.places {
            frames.seek(place.at);
            let chunk = frames.next_chunk().unwrap().unwrap();
            let rows = (0..).zip(chunk.records());
            all.extend(rows.map(|(row, text)| (chunk.labels.clone(), chunk.rows.id(row).unwrap(), text.to_vec())));
        }
        all
    }

    /// The records of a damaged segment before and after it was written anew.
    fn anew(damaged: &[u8], new: Id) -> Option<[Vec<Record>; 2]> {
        let file = create(damaged);
        let found = survey(&file, Path::new("q"), ID).ok()?;
        let to = create(b"");
        rewrite(&file, Path::new("q"), ID, &found, &*to, new).unwrap();
        let again = survey(&to, Path::new("q"), new).unwrap();
        assert!(again.seal.is_some() && again.damage.is_empty() && again.harmless.is_empty(), "{again:?}");
        assert_eq!(again.reach, found.reach);
        Some([records(&file, ID, &found), records(&to, new, &again)])
    }

    #[test]
    fn a_sound_segment_stays_what_it_is() {
        let [before, after] = anew(&segment(), ID).unwrap();
        assert_eq!((before.len(), &before), (240, &after));
        // Also without declarations: the seal repeats the labels.
        let mut damaged = segment();
        damaged[HEADER_LEN + 5] ^= 1;
        damaged[3] ^= 1;
        assert_eq!(anew(&damaged, ID).unwrap(), [before, after]);
    }

    proptest! {
        #[test]
        fn all_whole_frames_are_kept(flips in prop::collection::vec((any::<usize>(), 0..8_u8), 0..6), cut in any::<usize>(), cuts in any::<bool>()) {
            let bytes = segment();
            let stored = anew(&bytes, NEW).unwrap()[0].clone();
            let mut damaged = bytes;
            if cuts {
                damaged.truncate(cut % damaged.len());
            }
            let length = damaged.len().max(1);
            for (at, bit) in flips {
                damaged.iter_mut().skip(at % length).take(1).for_each(|byte| *byte ^= 1 << bit);
            }
            if let Some([before, after]) = anew(&damaged, NEW) {
                prop_assert_eq!(&before, &after);
                prop_assert!(after.iter().all(|record| stored.contains(record)));
            }
        }
    }

    #[test]
    fn frames_are_written_that_are_larger_than_what_is_written_at_once() {
        let text = vec![b'x'; WRITE_BYTES + 9];
        let text = [text, b"\n".to_vec()].concat();
        let header = Header {
            body_len: text.len() as u32,
            sides_len: 0,
            first: Id::new(Millis(60), Producer::new(5), 0),
            count: 1,
            stream: 0,
            accepted: Millis(70),
            kind: Kind::Records,
            flags: 0,
        };
        let mut bytes = super::header(ID).to_vec();
        let mut body = Vec::new();
        Labels::default().encode(&mut body);
        let body_len = body.len() as u32;
        let declared = Header { body_len, first: Id::MIN, count: 0, kind: Kind::Stream, ..header };
        bytes.extend_from_slice(&declared.seal(seed(ID), &[&body]));
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(&header.seal(seed(ID), &[&text]));
        bytes.extend_from_slice(&text);
        let [before, after] = anew(&bytes, NEW).unwrap();
        assert_eq!((before.len(), &before), (1, &after));
    }
}
