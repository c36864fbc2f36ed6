//! Reads the fields of protobuf messages in place.
//!
//! `prost` copies every string and message into a tree before the first record is known. This reader borrows the bytes of each
//! field from the body; `bucksaw-bench decode` compares both.

/// Why bytes are not a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtobufError {
    /// A field ends beyond its message.
    #[error("the protobuf message is cut off")]
    Truncated,
    /// An integer has more than ten bytes.
    #[error("the protobuf message has an integer of more than 64 bits")]
    Overflow,
    /// A number of a field, or a wire type, that does not exist. Groups are among them.
    #[error("the protobuf message has an invalid field: {0}")]
    InvalidField(u64),
    /// A field has another wire type than its schema states.
    #[error("field {0} of the protobuf message has another type than its schema states")]
    WrongType(u32),
}

/// The value of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtobufValue<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    /// A string, bytes, or a message.
    Bytes(&'a [u8]),
}

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProtobufField<'a> {
    pub(crate) number: u32,
    pub(crate) value: ProtobufValue<'a>,
}

impl<'a> ProtobufField<'a> {
    /// The bytes of a string, of bytes, or of a message.
    pub(crate) fn bytes(self) -> Result<&'a [u8], ProtobufError> {
        match self.value {
            ProtobufValue::Bytes(bytes) => Ok(bytes),
            _ => Err(ProtobufError::WrongType(self.number)),
        }
    }

    /// A varint.
    pub(crate) fn varint(self) -> Result<u64, ProtobufError> {
        match self.value {
            ProtobufValue::Varint(number) => Ok(number),
            _ => Err(ProtobufError::WrongType(self.number)),
        }
    }

    /// An integer of eight bytes.
    pub(crate) fn fixed64(self) -> Result<u64, ProtobufError> {
        match self.value {
            ProtobufValue::Fixed64(number) => Ok(number),
            _ => Err(ProtobufError::WrongType(self.number)),
        }
    }

    /// An integer of four bytes.
    pub(crate) fn fixed32(self) -> Result<u32, ProtobufError> {
        match self.value {
            ProtobufValue::Fixed32(number) => Ok(number),
            _ => Err(ProtobufError::WrongType(self.number)),
        }
    }
}

/// The fields of a message in the order of its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProtobufFields<'a>(&'a [u8]);

impl<'a> ProtobufFields<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// The next field; `None` at the end of the message.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<ProtobufField<'a>>, ProtobufError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_| ProtobufError::InvalidField(key))?;
        if number == 0 || number >= 1 << 29 {
            return Err(ProtobufError::InvalidField(key));
        }
        let value = match key & 7 {
            0 => ProtobufValue::Varint(self.varint()?),
            1 => ProtobufValue::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Truncated)?;
                let (bytes, rest) = self.0.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
                self.0 = rest;
                ProtobufValue::Bytes(bytes)
            }
            5 => ProtobufValue::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(ProtobufError::InvalidField(key)),
        };
        Ok(Some(ProtobufField { number, value }))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtobufError> {
        let (bytes, rest) = self.0.split_first_chunk::<N>().ok_or(ProtobufError::Truncated)?;
        self.0 = rest;
        Ok(*bytes)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, ProtobufError> {
        if let Some((first, rest)) = self.0.split_first()
            && *first < 0x80
        {
            self.0 = rest;
            return Ok(u64::from(*first));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, ProtobufError> {
        let mut number = 0_u64;
        for shift in (0..70).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(ProtobufError::Truncated)?;
            self.0 = rest;
            // The tenth byte has the last bit.
            if shift == 63 && *byte > 1 {
                return Err(ProtobufError::Overflow);
            }
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Ok(number);
            }
        }
        Err(ProtobufError::Overflow)
    }
}

/// Appends a field that is a varint; without effect for zero, which is the default.
pub(crate) fn write_varint(out: &mut Vec<u8>, number: u32, value: u64) {
    if value != 0 {
        push_varint(out, u64::from(number) << 3);
        push_varint(out, value);
    }
}

/// Appends a field of bytes; without effect if they are empty.
pub(crate) fn write_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    if !bytes.is_empty() {
        push_varint(out, u64::from(number) << 3 | 2);
        push_varint(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }
}

/// Appends a field that is an integer of eight bytes; without effect for zero.
pub(crate) fn write_fixed64(out: &mut Vec<u8>, number: u32, value: u64) {
    if value != 0 {
        push_varint(out, u64::from(number) << 3 | 1);
        out.extend_from_slice(&value.to_le_bytes());
    }
}

/// Appends the start of a field that is a message, of which the caller writes this number of bytes.
pub(crate) fn write_message_start(out: &mut Vec<u8>, number: u32, length: usize) {
    push_varint(out, u64::from(number) << 3 | 2);
    push_varint(out, length as u64);
}

/// Bytes of a field that is a message of this length, also an empty one; its number is below 16.
pub(crate) fn message_bytes(length: usize) -> usize {
    1 + varint_bytes(length as u64) + length
}

/// Bytes of a varint.
pub(crate) fn varint_bytes(value: u64) -> usize {
    // Seven bits in each byte, at least one byte.
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use prost::encoding::{WireType, encode_key, encode_varint};

    fn all(message: &[u8]) -> Result<Vec<ProtobufField<'_>>, ProtobufError> {
        let mut fields = ProtobufFields::new(message);
        std::iter::from_fn(|| fields.next().transpose()).collect()
    }

    #[test]
    fn damage_is_an_error() {
        let check = |bytes: &[u8], want: ProtobufError| assert_eq!(all(bytes), Err(want), "{bytes:x?}");
        check(b"\x08", ProtobufError::Truncated);
        check(b"\x08\x80", ProtobufError::Truncated);
        check(b"\x09\0\0\0", ProtobufError::Truncated);
        check(b"\x0a\x05abc", ProtobufError::Truncated);
        check(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", ProtobufError::Truncated);
        check(&[0xff; 12], ProtobufError::Overflow);
        check(b"\x00\x00", ProtobufError::InvalidField(0));
        check(b"\x0b", ProtobufError::InvalidField(11));
        check(b"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02", ProtobufError::Overflow);
    }

    proptest! {
        #[test]
        fn fields_are_read_as_prost_writes_them(numbers in prop::collection::vec((1_u32..1 << 29, any::<u64>(), 0..4_u8), 0..20)) {
            let mut bytes = Vec::new();
            let text = vec![b'x'; 300];
            let mut want = Vec::new();
            for (number, value, kind) in numbers {
                let value = match kind {
                    0 => { encode_key(number, WireType::Varint, &mut bytes); encode_varint(value, &mut bytes); ProtobufValue::Varint(value) }
                    1 => { encode_key(number, WireType::SixtyFourBit, &mut bytes); bytes.extend(value.to_le_bytes()); ProtobufValue::Fixed64(value) }
                    2 => { encode_key(number, WireType::ThirtyTwoBit, &mut bytes); bytes.extend((value as u32).to_le_bytes()); ProtobufValue::Fixed32(value as u32) }
                    _ => {
                        let part = &text[..(value % 300) as usize];
                        encode_key(number, WireType::LengthDelimited, &mut bytes);
                        encode_varint(part.len() as u64, &mut bytes);
                        bytes.extend(part);
                        ProtobufValue::Bytes(part)
                    }
                };
                want.push(ProtobufField { number, value });
            }
            prop_assert_eq!(all(&bytes), Ok(want));
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = all(&bytes);
        }
    }
}
