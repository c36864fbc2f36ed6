//! The framed protocol between Bucksaw's own clients and an ingest port: batches in one direction, acknowledgements in the
//! other.
//!
//! The ports also accept plain lines. The first bytes distinguish the two: the first byte of [`MAGIC`] cannot start a UTF-8
//! character, so no text starts with it.
//!
//! ```text
//!   client                                          node
//!     │ ── Hello: version, labels ─────────────────► │   the stream of the batches behind it
//!     │ ◄──── HelloReply: version, frame limit ───── │   or a refusal with its reason
//!     │ ── token ──────────────────────────────────► │   only with a token: acknowledged by 0 batches, or refused
//!     │ ── batch 0 ────────────────────────────────► │   a record frame, with the bytes of the file format
//!     │ ── batch 1 ────────────────────────────────► │
//!     │ ◄──────────────── ServerMessage: acked 2 ─── │   the first two batches are durable
//!     │ ── labels ─────────────────────────────────► │   the stream of the batches behind it
//!     │ ── batch 2 ────────────────────────────────► │
//!     │ ── flush ──────────────────────────────────► │   bulk: close the segment now
//!     │ ── report ─────────────────────────────────► │   an agent: files, lag, losses; every few seconds
//!     │ ◄──── ServerMessage: redirect, addresses ─── │   other nodes are less loaded
//!     │ ◄─────── ServerMessage: failed, acked 2 ──── │   then the connection ends
//! ```
//! An acknowledgement counts the batches from the start of the connection without a gap. After a connection has ended, the
//! client sends unacknowledged batches again with the same bytes and ids, so a batch that had arrived is not duplicated.
//!
//! Versions: the client sends its newest version. The node replies with the lower of that and its own, and refuses a major
//! version that it does not support. A minor version only adds what an older side can ignore, or what is
//! not used with one: since 1.1 batches may have records of several lines and attributes, since 1.2 a connection may change its
//! labels, since 1.3 an agent may report its state, since 1.4 a client may present a token.
//!
//! This crate does no I/O and reads no clock. A decoder takes a slice and returns a message or the number of missing bytes.
//!
//! ```
//! use bucksaw_record::Labels;
//! use bucksaw_wire::{DecodeProgress, Hello, WireVersion};
//! let hello = Hello { version: WireVersion::NEWEST, labels: Labels::parse("app=web").unwrap() };
//! let bytes = hello.encode();
//! assert_eq!(Hello::decode(&bytes[..16]), Ok(DecodeProgress::Incomplete(bytes.len() - 16)));
//! assert_eq!(Hello::decode(&bytes), Ok(DecodeProgress::Complete(hello, bytes.len())));
//! ```
#![deny(clippy::indexing_slicing)]

mod agent_report;
mod client_message;
mod client_token;
mod decode_progress;
mod error;
mod fields;
mod hello;
mod hello_reply;
mod redirect;
mod refusal_code;
mod server_message;
mod version;

pub use agent_report::AgentReport;
pub use client_message::{Batch, ClientMessage, FLUSH, encode_labels};
pub use client_token::ClientToken;
pub use decode_progress::DecodeProgress;
pub use error::WireError;
pub use hello::Hello;
pub use hello_reply::HelloReply;
pub use redirect::{Redirect, RedirectReason};
pub use refusal_code::RefusalCode;
pub use server_message::ServerMessage;
pub use version::WireVersion;

use bucksaw_record::Labels;

/// The first bytes of both sides. Its line ends and DOS end-of-file character reveal a transfer that changes bytes.
pub const MAGIC: [u8; 8] = *b"\x89BSW\r\n\x1a\n";

/// The maximum length of a text in a message, in bytes; longer texts are truncated.
pub const TEXT_BYTES_MAX: usize = 1_024;

/// The maximum length of an agent's report behind its header, in bytes.
pub const REPORT_BYTES_MAX: usize = 1_024;

/// The maximum length of a token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 4_096;

/// The maximum length of encoded labels, in bytes.
pub const LABELS_BYTES_MAX: usize = Labels::COUNT_MAX * (Labels::NAME_BYTES_MAX + Labels::VALUE_BYTES_MAX + 3);

#[cfg(test)]
mod tests;
