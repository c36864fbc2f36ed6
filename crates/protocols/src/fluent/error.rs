//! Why a message or a record is refused.

use bucksaw_record::InvalidAttributes;

use crate::InflateError;

/// Why bytes are not a MessagePack value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MsgpackError {
    /// The value ends beyond the bytes.
    #[error("a value is cut off")]
    Truncated,
    /// The byte 0xc1.
    #[error("no value starts with the byte 0xc1")]
    Reserved,
    /// Too many arrays and maps around each other.
    #[error("arrays and maps are nested more than {0} deep")]
    Nesting(usize),
    /// More bytes than one value has.
    #[error("{0} bytes follow the value")]
    Trailing(u64),
}

/// Why a message of the forward protocol is refused. Nothing of it was passed to the sink, so the sender may send it again
/// without duplicates; it will be refused again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FluentError {
    /// The bytes do not begin with an array or nil.
    #[error("not the forward protocol: the first byte is {0:#04x}{hint}", hint = hint(*.0))]
    NotForward(u8),
    /// The message is damaged.
    #[error("the message is not valid MessagePack: {0}")]
    Msgpack(#[from] MsgpackError),
    /// The message has another structure than the specification states.
    #[error("not a message of the forward protocol: {0}")]
    Structure(&'static str),
    /// The message is longer than the listener allows.
    #[error("the message is longer than {0} bytes: lower `chunk_limit_size` in the buffer of the sender")]
    TooLong(usize),
    /// The tag is longer than a label may be.
    #[error("the tag has {0} bytes; a label may have {max}", max = bucksaw_record::Labels::VALUE_BYTES_MAX)]
    TagTooLong(usize),
    /// The entries are compressed in an unknown way.
    #[error("the entries are compressed with `{0}`: let the sender use gzip, zstd or no compression")]
    Compression(String),
    /// The compressed entries are damaged, or too long when decompressed.
    #[error(transparent)]
    Inflate(#[from] InflateError),
}

/// What the sender probably sends instead.
fn hint(first: u8) -> &'static str {
    match first {
        0x16 => ", as of TLS: turn TLS off at the sender, or on at the listener",
        b'{' | b'[' => ", as of JSON: let the sender use MessagePack",
        b'A'..=b'Z' => ", as of HTTP: send HTTP to the HTTP port",
        _ => "",
    }
}

/// Why an entry is no event. The other entries of the message are not affected.
#[derive(Debug, thiserror::Error)]
pub(super) enum EntryError {
    #[error("an entry is not an array of a time and a record")]
    Entry,
    #[error("a record is not a map")]
    Record,
    /// As the name of a member it would need escapes of escapes, whose length doubles with each level.
    #[error("a key of a record is an array or a map")]
    Key,
    #[error("the attributes of a group have more than {0} bytes")]
    Group(usize),
    #[error(transparent)]
    Attributes(#[from] InvalidAttributes),
    /// Does not happen, as the message was scanned.
    #[error(transparent)]
    Msgpack(#[from] MsgpackError),
}
