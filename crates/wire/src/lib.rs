//! The framed protocol between our own clients and an ingest port: whole batches there, acknowledgements back.
//!
//! It shares its ports with plain lines. The first bytes tell the two apart: no line of text starts with [`MAGIC`], as
//! its first byte cannot start a character of UTF-8.
//!
//! ```text
//!   client                                          node
//!     │ ── Hello: version, labels ─────────────────► │   one connection, one stream
//!     │ ◄──────── Answer: version, frame limit ───── │   or a refusal with its reason
//!     │ ── batch 0 ────────────────────────────────► │   a record frame, the same bytes as on disk
//!     │ ── batch 1 ────────────────────────────────► │
//!     │ ◄───────────────────────── Told: acked 2 ─── │   the promise holds for the first two batches
//!     │ ── flush ──────────────────────────────────► │   bulk: close the segment now
//!     │ ◄───────────── Told: elsewhere, addresses ── │   redirected to a less loaded node
//!     │ ◄──────────── Told: failed, acked 2, why ─── │   and then the connection ends
//! ```
//! Acknowledgements count batches from the start of the connection, in order, so one may stand for many. What is not
//! acknowledged when a connection ends is sent again on the next, the same bytes with the same ids: if it had arrived,
//! the repeat is no duplicate.
//!
//! Versions: a client states its newest. The node answers with the lower of that and its own; it refuses a major version
//! that it does not know. Minor versions only add what an older side can leave out, and that is not said to an older side.
//!
//! What it does not do: no I/O, no clock. Decoders look at a slice and say what it holds or how much is missing.
//!
//! ```
//! use bucksaw_record::Labels;
//! use bucksaw_wire::{Hello, Step, Version};
//! let hello = Hello { version: Version::NEWEST, labels: Labels::parse("app=web").unwrap() };
//! let bytes = hello.encode();
//! assert_eq!(Hello::decode(&bytes[..16]), Ok(Step::Need(bytes.len() - 16)));
//! assert_eq!(Hello::decode(&bytes), Ok(Step::Whole(hello, bytes.len())));
//! ```
#![deny(clippy::indexing_slicing)]

mod client_message;
mod decode_progress;
mod error;
mod fields;
mod hello;
mod hello_reply;
mod redirect;
mod server_message;
mod version;

pub use client_message::{Batch, ClientMessage, FLUSH};
pub use decode_progress::DecodeProgress;
pub use error::WireError;
pub use hello::Hello;
pub use hello_reply::{HelloReply, RefusalCode};
pub use redirect::{Redirect, RedirectReason};
pub use server_message::ServerMessage;
pub use version::Version;

/// What both sides start with. Its line ends and its DOS end-of-file sign show a transfer that changes bytes.
pub const MAGIC: [u8; 8] = *b"\x89BSW\r\n\x1a\n";

/// Bytes of a text that one side tells the other; longer ones are shortened.
pub const TEXT_BYTES_MAX: usize = 1_024;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;
