//! The agent: ships lines to an ingest port, in order and each record once.
//!
//! ```text
//!   input ─► intake: split, number, pack ─► send window: unacknowledged batches ─► connection: send, receive, reconnect
//!              ▲                               │ full: the input is not read             │
//!              └──────── back-pressure ────────┘◄──────────────── acknowledged: removed ─┘
//! ```
//! Records get their ids when a batch is packed, from one producer per process. A batch stays in the send window, as the bytes
//! that are sent, until it is acknowledged. After a reconnect the whole window is sent again in order, with the same bytes and
//! ids, so batches that had arrived are no duplicates and the others are not lost.
//!
//! An overloaded node names less loaded nodes in three cases: as a suggestion, with a refusal, and before it closes the
//! connection. The agent ends the connection in order and moves to one of them. If none accepts it, it returns to its configured
//! list ([`bucksaw_steering::AddressSelector`], `session`).
//!
//! An agent that ships a stream stores nothing on disk. Its input is not read while no node accepts records. An agent that
//! ships files keeps its positions and unacknowledged batches on disk, and what local listeners take in a queue
//! ([`run_files`]).
//!
//! ```no_run
//! # async fn ship(stop: tokio::sync::watch::Receiver<bool>) -> Result<(), bucksaw_forward::ForwardError> {
//! let config = bucksaw_forward::Config { addresses: vec!["127.0.0.1:7651".to_owned()], ..Default::default() };
//! let summary = bucksaw_forward::run(tokio::io::stdin(), config, bucksaw_env::Env::real(), stop).await?;
//! assert_eq!(summary.reconnects, 0);
//! # Ok(()) }
//! ```
#![deny(clippy::indexing_slicing)]

mod agent_labels;
mod backoff;
mod batch_builder;
mod batch_ids;
mod batch_packer;
mod config;
mod connect;
mod connection_loop;
mod error;
mod file_packer;
mod files;
mod intake;
mod journal;
mod lines;
mod node_stream;
mod queue;
mod record_attributes;
mod record_maker;
mod run;
mod send_window;
mod session;
mod source_acks;
mod status;
mod stream_attributes;

pub use config::Config;
pub use error::ForwardError;
pub use files::{Backlog, FilesConfig, OtherInputs, PodLabelChoice, PodLabelConfig, WhenFull, lock_state, run_files};
pub use intake::StreamInput;
pub use journal::JournalConfig;
pub use lines::{
    ContainerRef, EventRules, LineConfig, LineConfigError, LineTotals, LogFormat, Multiline, PodRef, ShippingRules,
};
pub use queue::{QueueInput, queue_config};
pub use run::{Summary, run, run_streams};
pub use status::{
    AgentInfo, AgentMonitor, AgentStatus, ConnectionStatus, FileLag, FilesStatus, PodLabelStatus, serve_metrics,
    serve_status,
};
