//! Calls of gRPC: framing of messages, status, time limits, and answers, on the HTTP/2 of `hyper`.
//!
//! Libraries for gRPC allocate the length that the prefix of a message states, and decompress the message there. Here
//! the prefix is checked first. The bytes behind it are read like any body, so the budget of bodies counts them.
//!
//! ```text
//!   POST /package.Service/Method                  request: headers, then 1 byte flag · 4 bytes length (big-endian) · message
//!   200, flag · length · message, grpc-status: 0  answer: the status is in the trailers
//!   200, grpc-status: 8, grpc-message: …          refusal: the status is in the headers
//!   200, messages, grpc-status: 8                 refusal of a call whose answer has begun: in the trailers
//! ```

mod answer;
mod deadline;
mod encoding;
mod message;
mod message_stream;
mod status;

pub(crate) use answer::{ANSWERED, answer, begin_message, end_message, not_grpc, refusal, refusal_headers};
pub(crate) use deadline::CallDeadline;
pub(crate) use encoding::{message_encoding, stated_encoding};
pub(crate) use message::MessageBody;
pub(crate) use message_stream::{MessageStream, StreamedMessage};
pub(crate) use status::{GrpcCode, GrpcError};
