//! Unary calls of gRPC: framing of the message, status, and answers, on the HTTP/2 of `hyper`.
//!
//! Libraries for gRPC allocate the length that the prefix of a message states, and decompress the message there. Here
//! the prefix is checked first. The bytes behind it are read like any body, so the budget of bodies counts them.
//!
//! ```text
//!   POST /package.Service/Method                  request: headers, then 1 byte flag · 4 bytes length (big-endian) · message
//!   200, flag · length · message, grpc-status: 0  answer: the status is in the trailers
//!   200, grpc-status: 8, grpc-message: …          refusal: the status is in the headers
//! ```

mod answer;
mod message;
mod status;

pub(crate) use answer::{answer, not_grpc, refusal};
pub(crate) use message::MessageBody;
pub(crate) use status::{GrpcCode, GrpcError};
