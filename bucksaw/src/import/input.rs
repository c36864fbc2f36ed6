//! A file as text, whatever its compression.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use bucksaw_record::Millis;
use flate2::bufread::MultiGzDecoder;

/// Bytes that are read of a file at once.
const READ_BYTES: usize = 256 << 10;

/// The longest magic number, in bytes.
const MAGIC_BYTES: usize = 4;

/// The largest window of zstd, as a power of two: as with `zstd --long`. It is held in memory.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// The text of a file or of standard input.
pub(super) struct Input {
    text: Box<dyn Read>,
    /// The time of the last change; of standard input, of its opening.
    pub(super) modified: Millis,
    pub(super) is_standard_input: bool,
}

impl Input {
    /// Opens a file, or standard input for `-`. The compression is recognised by the first bytes, not by the name.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let is_standard_input = path.as_os_str() == "-";
        if is_standard_input {
            return Self::of(Box::new(io::stdin()), millis(SystemTime::now()), true);
        }
        let file = File::open(path).context("cannot open it")?;
        let metadata = file.metadata().context("cannot read its size")?;
        if metadata.is_dir() {
            bail!("it is a directory: name its files");
        }
        let modified = millis(metadata.modified().context("cannot read the time of its last change")?);
        Self::of(Box::new(file), modified, false)
    }

    fn of(bytes: Box<dyn Read>, modified: Millis, is_standard_input: bool) -> anyhow::Result<Self> {
        let mut bytes = BufReader::with_capacity(READ_BYTES, bytes);
        let mut magic = Vec::new();
        // A pipe may give fewer bytes at once.
        (&mut bytes).take(MAGIC_BYTES as u64).read_to_end(&mut magic).context("cannot read it")?;
        let whole = BufReader::with_capacity(READ_BYTES, Cursor::new(magic.clone()).chain(bytes));
        let text: Box<dyn Read> = match *magic.as_slice() {
            [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(whole)),
            // A frame, or a frame to skip before it.
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(whole).context("cannot read zstd")?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).context("cannot read zstd")?;
                Box::new(decoder)
            }
            _ => Box::new(whole),
        };
        Ok(Self { text, modified, is_standard_input })
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.text.read(buffer)
    }
}

fn millis(time: SystemTime) -> Millis {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    Millis(u64::try_from(since).unwrap_or(u64::MAX)).min(Millis::MAX)
}
