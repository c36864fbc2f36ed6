//! The agent that ships lines to an ingest port and loses none of them.
//!
//! ```text
//!   input ─► intake: cut, number, pack ─► window: frames without an acknowledgement ─► link: send, hear, reconnect
//!              ▲                             │ full: the input is not read                │
//!              └─────── back-pressure ───────┘◄──────────────── acknowledged: forgotten ──┘
//! ```
//! Records get their ids when a batch is packed, from one producer for the life of the process. A batch stays in the
//! window, as the bytes that were sent, until it is acknowledged; after a reconnect all that is in the window is sent
//! again, in order, the same bytes with the same ids. What had arrived before is therefore no duplicate, and what had not
//! is not lost.
//!
//! A node with much to do names others: as a suggestion, when it refuses, or when it lets go. The agent goes there when it
//! can, in order, and comes back to its own list when that leads nowhere (`route`, `session`).
//!
//! What it does not do: it keeps nothing on disk. Whoever feeds it is held back when no node takes the records.
//!
//! ```no_run
//! # async fn ship(stop: tokio::sync::watch::Receiver<bool>) -> Result<(), bucksaw_forward::ForwardError> {
//! let config = bucksaw_forward::Config { to: vec!["127.0.0.1:7651".to_owned()], ..Default::default() };
//! let summary = bucksaw_forward::run(tokio::io::stdin(), config, bucksaw_env::Doors::real(), stop).await?;
//! assert_eq!(summary.reconnects, 0);
//! # Ok(()) }
//! ```
#![deny(clippy::indexing_slicing)]

mod address_selector;
mod backoff;
mod batch_packer;
mod config;
mod connect;
mod connection_loop;
mod error;
mod intake;
mod run;
mod send_window;
mod session;
mod stop;

pub use config::Config;
pub use error::ForwardError;
pub use run::{Summary, run};
