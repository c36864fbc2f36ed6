//! The first bytes of a MessagePack value, which contain its kind and length.

use rmp::Marker;

use super::MsgpackError;

/// The bytes of a value by its first byte; 0 if that does not suffice.
#[expect(clippy::indexing_slicing, reason = "in a constant, a panic is an error of the compiler")]
const SCALAR_LENGTHS: [u8; 256] = {
    let mut lengths = [0; 256];
    let mut first = 0;
    while first < lengths.len() {
        lengths[first] = match first as u8 {
            // Small numbers, nil and booleans.
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => 1,
            text @ 0xa0..=0xbf => 1 + (text & 0x1f),
            // Numbers.
            0xcc | 0xd0 => 2,
            0xcd | 0xd1 => 3,
            0xca | 0xce | 0xd2 => 5,
            0xcb | 0xcf | 0xd3 => 9,
            // Extensions, whose type is one byte.
            extension @ 0xd4..=0xd8 => 2 + (1 << (extension - 0xd4)),
            _ => 0,
        };
        first += 1;
    }
    lengths
};

/// The bytes of a value that is no array or map, if its first byte states them.
#[inline]
pub(super) fn scalar_length(first: u8) -> Option<usize> {
    SCALAR_LENGTHS.get(usize::from(first)).map(|length| usize::from(*length)).filter(|length| *length > 0)
}

/// What a value is, and what follows its first bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MsgpackHead {
    pub(super) marker: Marker,
    /// Bytes of the marker and of a stated length.
    pub(super) bytes: usize,
    /// Bytes that follow. The type of an extension is one of them.
    pub(super) payload: u64,
    /// Values that follow: the elements of an array, the keys and values of a map.
    pub(super) children: u64,
}

impl MsgpackHead {
    /// Reads the head of the value at the start of `bytes`; `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`MsgpackError::Reserved`] for the one byte with which no value starts.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, MsgpackError> {
        let Some((first, rest)) = bytes.split_first() else { return Ok(None) };
        let marker = Marker::from_u8(*first);
        let (length_bytes, payload, children) = match marker {
            Marker::Reserved => return Err(MsgpackError::Reserved),
            Marker::FixArray(count) => (0, 0, u64::from(count)),
            Marker::FixMap(count) => (0, 0, 2 * u64::from(count)),
            _ if let Some(length) = scalar_length(*first) => (0, length as u64 - 1, 0),
            _ => {
                let length_bytes = match marker {
                    Marker::Str8 | Marker::Bin8 | Marker::Ext8 => 1,
                    Marker::Str16 | Marker::Bin16 | Marker::Ext16 | Marker::Array16 | Marker::Map16 => 2,
                    _ => 4,
                };
                let Some(length) = rest.get(..length_bytes) else { return Ok(None) };
                let length = length.iter().fold(0, |length, byte| length << 8 | u64::from(*byte));
                match marker {
                    Marker::Array16 | Marker::Array32 => (length_bytes, 0, length),
                    Marker::Map16 | Marker::Map32 => (length_bytes, 0, 2 * length),
                    Marker::Ext8 | Marker::Ext16 | Marker::Ext32 => (length_bytes, length + 1, 0),
                    _ => (length_bytes, length, 0),
                }
            }
        };
        Ok(Some(Self { marker, bytes: 1 + length_bytes, payload, children }))
    }

    /// Whether the value is an array or a map.
    pub(super) fn is_container(&self) -> bool {
        use Marker::{Array16, Array32, FixArray, FixMap, Map16, Map32};
        matches!(self.marker, FixArray(_) | Array16 | Array32 | FixMap(_) | Map16 | Map32)
    }
}
