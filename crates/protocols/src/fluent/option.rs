//! The options of a message.

use super::{FluentError, MsgpackReader, MsgpackValue};

/// The longest id of a chunk, in bytes. Senders have ids of 16 bytes, as text.
const CHUNK_ID_BYTES_MAX: usize = 1_024;

/// How the entries of a message are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EntryCompression {
    #[default]
    None,
    Gzip,
    Zstd,
}

/// What the last element of a message states.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FluentOptions<'a> {
    /// The id that the acknowledgement repeats, as MessagePack.
    pub(super) chunk: Option<&'a [u8]>,
    pub(super) size: Option<u64>,
    pub(super) compression: EntryCompression,
    /// What Fluent Bit sends: 0 for logs.
    pub(super) signal: u64,
    /// What Fluent Bit states besides the record of a single event, as MessagePack.
    pub(super) metadata: Option<&'a [u8]>,
}

impl<'a> FluentOptions<'a> {
    /// Reads the options, which are a map or nil.
    pub(super) fn read(values: &mut MsgpackReader<'a>) -> Result<Self, FluentError> {
        let mut options = Self::default();
        let count = match values.value()? {
            MsgpackValue::Nil => 0,
            MsgpackValue::Map(count) => count,
            _ => return Err(FluentError::Structure("the options are not a map")),
        };
        for _ in 0..count {
            let (name, raw) = (MsgpackReader::new(values.raw()?).value()?, values.raw()?);
            if let MsgpackValue::Text(name) | MsgpackValue::Binary(name) = name {
                options.set(name, MsgpackReader::new(raw).value()?, raw)?;
            }
        }
        Ok(options)
    }

    fn set(&mut self, name: &[u8], value: MsgpackValue<'a>, raw: &'a [u8]) -> Result<(), FluentError> {
        match (name, value) {
            (_, MsgpackValue::Nil) => {}
            (b"chunk", _) if raw.len() > CHUNK_ID_BYTES_MAX => {
                return Err(FluentError::Structure("the option `chunk` is longer than 1024 bytes"));
            }
            (b"chunk", _) => self.chunk = Some(raw),
            (b"size", MsgpackValue::Unsigned(size)) => self.size = Some(size),
            (b"fluent_signal", MsgpackValue::Unsigned(signal)) => self.signal = signal,
            (b"metadata", MsgpackValue::Map(_)) => self.metadata = Some(raw),
            (b"compressed", value) => self.compression = compression(value)?,
            _ => {}
        }
        Ok(())
    }
}

fn compression(value: MsgpackValue<'_>) -> Result<EntryCompression, FluentError> {
    let (MsgpackValue::Text(name) | MsgpackValue::Binary(name)) = value else {
        return Err(FluentError::Structure("the option `compressed` is not a string"));
    };
    match name {
        b"" | b"text" => Ok(EntryCompression::None),
        b"gzip" => Ok(EntryCompression::Gzip),
        b"zstd" => Ok(EntryCompression::Zstd),
        _ => {
            let start = name.get(..name.len().min(40)).unwrap_or_default();
            Err(FluentError::Compression(start.escape_ascii().to_string()))
        }
    }
}
