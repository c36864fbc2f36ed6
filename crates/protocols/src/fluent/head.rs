//! The first bytes of a MessagePack value, which contain its kind and length.

use rmp::Marker;

use super::MsgpackError;

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
            Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => (0, 0, 0),
            Marker::U8 | Marker::I8 => (0, 1, 0),
            Marker::U16 | Marker::I16 | Marker::FixExt1 => (0, 2, 0),
            Marker::FixExt2 => (0, 3, 0),
            Marker::U32 | Marker::I32 | Marker::F32 => (0, 4, 0),
            Marker::FixExt4 => (0, 5, 0),
            Marker::U64 | Marker::I64 | Marker::F64 => (0, 8, 0),
            Marker::FixExt8 => (0, 9, 0),
            Marker::FixExt16 => (0, 17, 0),
            Marker::FixStr(length) => (0, u64::from(length), 0),
            Marker::FixArray(count) => (0, 0, u64::from(count)),
            Marker::FixMap(count) => (0, 0, 2 * u64::from(count)),
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
