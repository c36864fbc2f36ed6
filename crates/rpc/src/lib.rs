//! Messages between nodes: framing, limits and versions. The meaning of a message belongs to its caller.
//!
//! A call of [`bucksaw_env::Net`] has a body and a reply body. They take one of three forms:
//!
//! | form | functions | used by |
//! | --- | --- | --- |
//! | one JSON message | [`call_message`], [`message_body`], [`read_message`] | most calls |
//! | a JSON message, then bytes | [`encode_head`], [`read_head`] | segments, id sets |
//! | typed messages with checksums | [`stream_message`], [`MessageReader`] | replies to queries |
//!
//! JSON messages evolve by their fields: readers ignore unknown ones and give absent ones a default, so adjacent versions
//! understand each other. Messages that cannot evolve like that have a version field, checked by [`decode_versioned`] before
//! the other fields are read.
//!
//! Every reader has a limit, and allocates no more than has arrived.

mod call;
mod head;
mod stream;
mod version;

pub use call::call_message;
pub use head::{BodyRemainder, MESSAGE_BYTES_MAX, encode_head, message_body, read_head, read_message};
pub use stream::{
    MalformedMessage, MessageReader, STREAM_MESSAGE_BYTES_MAX, StreamMessageKind, stream_header, stream_message,
};
pub use version::{DecodeError, decode_versioned};
