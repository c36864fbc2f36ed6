//! The seal at the end of a closed queue segment: lists the contents of the file, so missing records are detected.
//!
//! Frames have checksums of their own. Only the seal shows that a frame is missing at the end of the file, and it repeats the
//! labels of all streams, which otherwise only their stream frames contain. Format: `docs/format.md`, "Seal".

use std::io;
use std::path::Path;

use bucksaw_binary::ByteReader;
use bucksaw_env::{ENCRYPTION_OVERHEAD, File, FileCipher};
use bucksaw_record::{Id, Labels};

use crate::encryption::{DecryptError, Decryptor};
use crate::{ReadError, RecordSummary};

const MARKER: [u8; 4] = *b"BSWS";
/// The marker of a seal whose labels are encrypted.
const ENCRYPTED_MARKER: [u8; 4] = *b"BSWE";
const MAGIC: [u8; 8] = *b"BSWQSEAL";

/// Bytes without the labels.
const FIXED_LEN: usize = 84;

/// The end of the fields before the labels, behind the checksum.
const CONTEXT_END: usize = FIXED_LEN - TAIL_LEN - 8;

/// Bytes after the labels.
const TAIL_LEN: usize = 12;

/// The content of a closed queue segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The offset of the seal, which is the end of the last frame.
    pub offset: u64,
    /// Number of records.
    pub records: u64,
    /// Bytes of their text.
    pub text_bytes: u64,
    /// The lowest id.
    pub low: Id,
    /// The highest id.
    pub high: Id,
    /// The labels of all streams, by number; empty if they do not fit.
    pub streams: Vec<Labels>,
}

impl Seal {
    /// Maximum bytes of a seal. Labels that do not fit are omitted: the stream frames have them.
    pub const LEN_MAX: usize = 32 << 20;

    /// The seal of a file whose frames end at `offset`.
    pub fn new(offset: u64, summary: &RecordSummary, streams: &[Labels]) -> Self {
        let RecordSummary { low, high, records, text_bytes, .. } = *summary;
        Self { offset, records, text_bytes, low, high, streams: streams.to_vec() }
    }

    /// Encodes the seal of segment `id`, with its labels encrypted if there is a cipher.
    ///
    /// # Errors
    /// Those of [`FileCipher::encrypt`].
    pub fn encode(&self, id: Id, cipher: Option<&dyn FileCipher>) -> io::Result<Vec<u8>> {
        let mut labels = Vec::new();
        let mut streams = self.streams.len() as u32;
        for stream in &self.streams {
            let mut one = Vec::new();
            stream.encode(&mut one);
            labels.extend_from_slice(&(one.len() as u32).to_le_bytes());
            labels.extend_from_slice(&one);
        }
        if labels.len() > Self::LEN_MAX - FIXED_LEN - ENCRYPTION_OVERHEAD {
            labels.clear();
            streams = 0;
        }
        let fields = [
            &self.offset.to_le_bytes()[..],
            &self.records.to_le_bytes(),
            &self.text_bytes.to_le_bytes(),
            &self.low.bits().to_le_bytes(),
            &self.high.bits().to_le_bytes(),
            &streams.to_le_bytes(),
        ]
        .concat();
        let mut marker = MARKER;
        if let Some(cipher) = cipher {
            labels = cipher.encrypt(&fields, &[&labels])?;
            marker = ENCRYPTED_MARKER;
        }
        let length = ((FIXED_LEN + labels.len()) as u32).to_le_bytes();
        let rest = [&length[..], &fields, &labels, &length, &MAGIC].concat();
        let crc = crc32c::crc32c_append(super::checksum_seed(id), &rest);
        Ok([&marker[..], &crc.to_le_bytes(), &rest].concat())
    }

    /// Reads the seal at the end of a file of `size` bytes; `None` if it is missing or damaged.
    ///
    /// # Errors
    /// [`ReadError`] if the file cannot be read, or its key is unknown.
    pub fn find(file: &dyn File, path: &Path, id: Id, size: u64) -> Result<Option<Self>, ReadError> {
        let Some(tail_at) = size.checked_sub(TAIL_LEN as u64) else { return Ok(None) };
        let tail = file.read_bytes(tail_at, TAIL_LEN).map_err(ReadError::io(path))?;
        let mut reader = ByteReader(&tail);
        let (length, magic) = (reader.u32().unwrap_or_default(), reader.bytes(MAGIC.len()));
        let fits = (FIXED_LEN..=Self::LEN_MAX).contains(&(length as usize));
        let Some(at) = size.checked_sub(u64::from(length)).filter(|_| fits && magic == Some(&MAGIC)) else {
            return Ok(None);
        };
        let bytes = file.read_bytes(at, length as usize).map_err(ReadError::io(path))?;
        match Self::decode(&bytes, id, &Decryptor::new(file, &super::KIND, id)) {
            Ok(seal) => Ok(Some(seal).filter(|seal| seal.offset == at)),
            Err(DecryptError::NoKey(key)) => Err(ReadError::MissingKey { path: path.to_owned(), key }),
            Err(DecryptError::Changed) => Ok(None),
        }
    }

    /// Decodes a seal. Bytes that are not an intact seal of segment `id` count as changed.
    pub(crate) fn decode(bytes: &[u8], id: Id, decryptor: &Decryptor) -> Result<Self, DecryptError> {
        let SealFields { mut seal, streams, labels, context } =
            SealFields::decode(bytes, id).ok_or(DecryptError::Changed)?;
        let decrypted = context.map(|context| decryptor.decrypt(context, labels.to_vec())).transpose()?;
        let labels = decrypted.as_deref().unwrap_or(labels);
        seal.streams = decode_labels(labels, streams).ok_or(DecryptError::Changed)?;
        Ok(seal)
    }
}

/// The fields of an intact seal.
struct SealFields<'a> {
    /// Without its streams.
    seal: Seal,
    /// Their number.
    streams: u32,
    /// Their labels.
    labels: &'a [u8],
    /// What the labels are bound to, if they are encrypted.
    context: Option<&'a [u8]>,
}

impl<'a> SealFields<'a> {
    fn decode(bytes: &'a [u8], id: Id) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        let crc = crc32c::crc32c_append(super::checksum_seed(id), rest);
        let is_encrypted = head.get(..4)? == ENCRYPTED_MARKER;
        if !is_encrypted && head.get(..4)? != MARKER || head.get(4..)? != crc.to_le_bytes() {
            return None;
        }
        let mut reader = ByteReader(rest.get(..rest.len().checked_sub(TAIL_LEN)?)?);
        if reader.u32()? as usize != bytes.len() {
            return None;
        }
        let (offset, records, text_bytes) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (low, high) = (Id::from_bits(reader.u128()?), Id::from_bits(reader.u128()?));
        let streams = reader.u32()?;
        let seal = Seal { offset, records, text_bytes, low, high, streams: Vec::new() };
        let context = if is_encrypted { Some(rest.get(4..CONTEXT_END)?) } else { None };
        Some(Self { seal, streams, labels: reader.0, context })
    }
}

fn decode_labels(bytes: &[u8], streams: u32) -> Option<Vec<Labels>> {
    let mut reader = ByteReader(bytes);
    let mut labels = Vec::new();
    for _ in 0..streams {
        let length = reader.u32()? as usize;
        labels.push(Labels::decode(reader.bytes(length)?).ok()?);
    }
    reader.is_empty().then_some(labels)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bucksaw_env::{Fs, sim};
    use bucksaw_record::{Millis, Producer};
    use proptest::prelude::*;

    use super::*;

    const ID: Id = Id::from_bits(99);

    fn seal() -> Seal {
        let streams = ["app=web,host=a", "app=db"].map(|text| Labels::parse(text).unwrap()).to_vec();
        let id = |ms| Id::new(Millis(ms), Producer::new(4), 1);
        Seal { offset: 40, records: 7, text_bytes: 300, low: id(5), high: id(9), streams }
    }

    fn encoded() -> Vec<u8> {
        seal().encode(ID, None).unwrap()
    }

    fn file(bytes: &[u8]) -> Arc<dyn File> {
        let file = sim::Fs::new().create(Path::new("q")).unwrap();
        file.append(&[bytes]).unwrap();
        file
    }

    fn find(bytes: &[u8]) -> Option<Seal> {
        Seal::find(&*file(bytes), Path::new("q"), ID, bytes.len() as u64).unwrap()
    }

    #[test]
    fn a_seal_is_found_at_the_end_of_its_file() {
        let bytes = [vec![7; 40], encoded()].concat();
        assert_eq!(find(&bytes), Some(seal()));
        assert_eq!(encoded().len(), FIXED_LEN + 2 * 4 + labels_bytes());
        assert_eq!(find(&bytes[1..]), None, "its offset is wrong");
        assert_eq!(find(&[bytes, vec![0]].concat()), None);
        assert_eq!(
            find(&[vec![7; 40], seal().encode(Id::MIN, None).unwrap()].concat()),
            None,
            "the seal of another segment"
        );
    }

    fn labels_bytes() -> usize {
        seal()
            .streams
            .iter()
            .map(|labels| {
                let mut bytes = Vec::new();
                labels.encode(&mut bytes);
                bytes.len()
            })
            .sum::<usize>()
    }

    #[test]
    fn flipped_bits_and_cuts_are_detected() {
        let bytes = [vec![7; 40], encoded()].concat();
        for bit in 40 * 8..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(find(&damaged), None, "bit {bit}");
        }
        (0..bytes.len()).for_each(|keep| assert_eq!(find(&bytes[..keep]), None, "cut to {keep}"));
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = bytes;
            let _ = SealFields::decode(&bytes, ID).map(|found| decode_labels(found.labels, found.streams));
            let crc = bytes.get(8..).map(|rest| crc32c::crc32c_append(super::super::checksum_seed(ID), rest));
            if let (Some(crc), Some(head)) = (crc, bytes.get_mut(..8)) {
                head[..4].copy_from_slice(&MARKER);
                head[4..].copy_from_slice(&crc.to_le_bytes());
                let _ = SealFields::decode(&bytes, ID).map(|found| decode_labels(found.labels, found.streams));
            }
        }
    }
}
