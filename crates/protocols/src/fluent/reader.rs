//! Reads MessagePack values in place.
//!
//! `rmpv` builds a tree with an allocation for each string, and `rmp-serde` needs a type for each kind of record. This
//! reader borrows strings from the message, and the caller reads what an array or map has.

use rmp::Marker;

use super::head::scalar_length;
use super::{MsgpackError, MsgpackHead};

/// A value; of an array or map only the number of its elements or pairs, which follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MsgpackValue<'a> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    /// A number below 0.
    Negative(i64),
    Float32(f32),
    Float64(f64),
    /// A string. Its bytes may be anything: older senders have no other type for bytes.
    Text(&'a [u8]),
    Binary(&'a [u8]),
    Array(u64),
    Map(u64),
    Extension(i8, &'a [u8]),
}

impl<'a> MsgpackValue<'a> {
    /// The bytes of a string, of either type.
    #[inline]
    pub(super) fn text(self) -> Option<&'a [u8]> {
        match self {
            Self::Text(text) | Self::Binary(text) => Some(text),
            _ => None,
        }
    }
}

/// The values of a message, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct MsgpackReader<'a>(&'a [u8]);

impl<'a> MsgpackReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether there is no other value.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next value. The elements of an array or the keys and values of a map are the values after it.
    #[inline]
    pub(super) fn value(&mut self) -> Result<MsgpackValue<'a>, MsgpackError> {
        if let Some((text, rest)) = short_text(self.0) {
            self.0 = rest;
            return Ok(MsgpackValue::Text(text));
        }
        let head = MsgpackHead::read(self.0)?.ok_or(MsgpackError::Truncated)?;
        let payload = self.payload(&head)?;
        Ok(match head.marker {
            Marker::Null | Marker::Reserved => MsgpackValue::Nil,
            Marker::True => MsgpackValue::Bool(true),
            Marker::False => MsgpackValue::Bool(false),
            Marker::FixPos(number) => MsgpackValue::Unsigned(u64::from(number)),
            Marker::U8 | Marker::U16 | Marker::U32 | Marker::U64 => MsgpackValue::Unsigned(unsigned(payload)),
            Marker::FixNeg(number) => MsgpackValue::Negative(i64::from(number)),
            Marker::I8 | Marker::I16 | Marker::I32 | Marker::I64 => {
                let number = signed(payload);
                u64::try_from(number).map_or(MsgpackValue::Negative(number), MsgpackValue::Unsigned)
            }
            Marker::F32 => MsgpackValue::Float32(f32::from_bits(unsigned(payload) as u32)),
            Marker::F64 => MsgpackValue::Float64(f64::from_bits(unsigned(payload))),
            Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => MsgpackValue::Text(payload),
            Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => MsgpackValue::Binary(payload),
            Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => MsgpackValue::Array(head.children),
            Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => MsgpackValue::Map(head.children / 2),
            Marker::FixExt1 | Marker::FixExt2 | Marker::FixExt4 | Marker::FixExt8 | Marker::FixExt16 => {
                extension(payload)
            }
            Marker::Ext8 | Marker::Ext16 | Marker::Ext32 => extension(payload),
        })
    }

    /// The next value, to which the reader stays.
    #[inline]
    pub(super) fn peek(&self) -> Result<MsgpackValue<'a>, MsgpackError> {
        let mut ahead = *self;
        ahead.value()
    }

    /// The bytes of the next value with all that it contains. Nesting is not bounded here: [`MsgpackScanner`](super::scanner::MsgpackScanner)
    /// has checked the message.
    #[inline]
    pub(super) fn raw(&mut self) -> Result<&'a [u8], MsgpackError> {
        let start = *self;
        self.skip(1)?;
        Ok(start.until(self))
    }

    /// Passes over the next `count` values.
    #[inline]
    pub(super) fn skip(&mut self, count: u64) -> Result<(), MsgpackError> {
        let mut left = count;
        while left > 0 {
            left -= 1;
            if let Some(rest) = self.0.first().and_then(|first| self.0.get(scalar_length(*first)?..)) {
                self.0 = rest;
                continue;
            }
            let head = MsgpackHead::read(self.0)?.ok_or(MsgpackError::Truncated)?;
            self.payload(&head)?;
            left = left.saturating_add(head.children);
        }
        Ok(())
    }

    /// Passes over these bytes if they are the next ones.
    #[inline]
    pub(super) fn strip(&mut self, prefix: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(prefix)?;
        Some(())
    }

    /// Passes over a number of bytes, and returns them if there are that many.
    #[inline]
    pub(super) fn bytes<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(bytes)
    }

    /// The bytes before another reader of the same message, which is further.
    pub(super) fn until(&self, further: &Self) -> &'a [u8] {
        self.0.get(..self.0.len().saturating_sub(further.0.len())).unwrap_or_default()
    }

    /// Passes over the next value, and returns it if it is a string or bytes.
    #[inline]
    pub(super) fn text_or_skip(&mut self) -> Result<Option<&'a [u8]>, MsgpackError> {
        match self.value()? {
            MsgpackValue::Text(text) | MsgpackValue::Binary(text) => return Ok(Some(text)),
            MsgpackValue::Array(count) => self.skip(count)?,
            MsgpackValue::Map(count) => self.skip(count.saturating_mul(2))?,
            _ => {}
        }
        Ok(None)
    }

    /// Passes over a head and what follows it, which is returned.
    #[inline]
    fn payload(&mut self, head: &MsgpackHead) -> Result<&'a [u8], MsgpackError> {
        let behind_head = self.0.get(head.bytes..).ok_or(MsgpackError::Truncated)?;
        let length = usize::try_from(head.payload).map_err(|_| MsgpackError::Truncated)?;
        let (payload, rest) = behind_head.split_at_checked(length).ok_or(MsgpackError::Truncated)?;
        self.0 = rest;
        Ok(payload)
    }
}

/// The string at the start of `bytes`, if its length is in the marker or in one byte, and what follows. Most values are such
/// strings.
#[inline]
fn short_text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    match bytes {
        [marker @ 0xa0..=0xbf, rest @ ..] => rest.split_at_checked(usize::from(marker & 0x1f)),
        [0xd9, length, rest @ ..] => rest.split_at_checked(usize::from(*length)),
        _ => None,
    }
}

/// A big-endian number of up to eight bytes.
fn unsigned(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A big-endian number in two's complement.
fn signed(bytes: &[u8]) -> i64 {
    let unused_bits = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    (unsigned(bytes) << unused_bits) as i64 >> unused_bits
}

fn extension(payload: &[u8]) -> MsgpackValue<'_> {
    match payload.split_first() {
        Some((kind, bytes)) => MsgpackValue::Extension(*kind as i8, bytes),
        None => MsgpackValue::Nil,
    }
}
