//! Reads the text of a compressed file from its start on.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::sync::Arc;

use bucksaw_env::File;

use crate::fingerprint::{Anchor, FINGERPRINT_BYTES_MAX};
use crate::rotation_name::Compression;

/// The longest window of zstd, as a power of two: 128 MiB, which the strongest levels use.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// The compressed bytes that are read at once.
const INPUT_BYTES: usize = 64 << 10;

/// Reads of a file one after the other.
struct SequentialFile {
    file: Arc<dyn File>,
    offset: u64,
}

impl Read for SequentialFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(self.offset, buffer)?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// Decompresses a file in one direction, within constant memory.
pub(crate) struct Unpacker {
    decoder: Box<dyn Read + Send>,
    /// The number of bytes that were decompressed.
    position: u64,
    /// The first of them.
    head: Vec<u8>,
    /// The last of them.
    tail: Anchor,
    /// An error that followed bytes which were returned.
    error: Option<io::Error>,
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unpacker({})", self.position)
    }
}

impl Unpacker {
    pub(crate) fn open(file: Arc<dyn File>, compression: Compression) -> io::Result<Self> {
        let input = BufReader::with_capacity(INPUT_BYTES, SequentialFile { file, offset: 0 });
        let decoder: Box<dyn Read + Send> = match compression {
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
            Compression::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
        };
        Ok(Self { decoder, position: 0, head: Vec::new(), tail: Anchor::default(), error: None })
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The first bytes of the text, as far as they were read.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The last bytes that were read.
    pub(crate) fn tail(&self) -> &Anchor {
        &self.tail
    }

    /// Fills `buffer` with the next bytes; fewer only at the end of the text or before an error, which the next call returns.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.decoder.read(rest) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if filled == 0 => return Err(error),
                Err(error) => {
                    self.error = Some(error);
                    break;
                }
            }
        }
        let text = buffer.get(..filled).unwrap_or_default();
        let wanted = FINGERPRINT_BYTES_MAX.saturating_sub(self.head.len()).min(text.len());
        self.head.extend_from_slice(text.get(..wanted).unwrap_or_default());
        self.tail = self.tail.followed_by(text);
        self.position += filled as u64;
        Ok(filled)
    }
}

/// Whether an error comes from the file and not from its contents.
pub(crate) fn is_read_error(error: &io::Error) -> bool {
    error.raw_os_error().is_some()
}

/// The first bytes of the text of a compressed file, up to a fingerprint's length.
pub(crate) fn unpacked_head(file: Arc<dyn File>, compression: Compression) -> io::Result<Vec<u8>> {
    let mut unpacker = Unpacker::open(file, compression)?;
    let mut head = vec![0; FINGERPRINT_BYTES_MAX];
    let length = unpacker.read(&mut head)?;
    // A head that is cut off would be taken for that of a shorter file.
    if let Some(error) = unpacker.error {
        return Err(error);
    }
    head.truncate(length);
    Ok(head)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::Path;

    use bucksaw_env::{Fs as _, sim};

    use super::*;

    fn file(bytes: &[u8]) -> Arc<dyn File> {
        let fs = sim::Fs::new();
        fs.append_to("/a", bytes).unwrap();
        fs.open(Path::new("/a")).unwrap()
    }

    fn packed(text: &[u8], compression: Compression) -> Vec<u8> {
        match compression {
            Compression::Zstd => zstd::stream::encode_all(text, 3).unwrap(),
            Compression::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
        }
    }

    #[test]
    fn text_is_read_in_parts() {
        let text: Vec<u8> = (0..100_000_u32).map(|n| (n / 7) as u8).collect();
        for compression in [Compression::Gzip, Compression::Zstd] {
            let bytes = packed(&text, compression);
            let mut unpacker = Unpacker::open(file(&bytes), compression).unwrap();
            let mut found = Vec::new();
            let mut buffer = vec![0; 777];
            while let Ok(read @ 1..) = unpacker.read(&mut buffer) {
                found.extend_from_slice(&buffer[..read]);
            }
            assert!(found == text);
            assert_eq!((unpacker.head(), unpacker.tail()), (&text[..1_024], &Anchor::of(&text)));
            assert_eq!(unpacked_head(file(&bytes), compression).unwrap(), &text[..1_024]);

            let mut unpacker = Unpacker::open(file(&bytes[..bytes.len() - 9]), compression).unwrap();
            let mut buffer = vec![0; 200_000];
            let read = unpacker.read(&mut buffer).unwrap_or_default();
            assert!(buffer[..read] == text[..read]);
            assert!(!is_read_error(&unpacker.read(&mut buffer).unwrap_err()));
        }
    }
}
