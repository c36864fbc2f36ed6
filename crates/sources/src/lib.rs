//! What comes in over TCP: lines from anything that can open a socket, and batches from our own clients.
//!
//! One listener has one durability and both protocols; the first bytes of a connection tell which it speaks. One
//! connection is one task, one stream and, for lines, one producer of ids.
//!
//! ```text
//!                    ┌─ magic ──► framed: hello, answer, then batch → queue → acknowledgement
//!   accept ─► first bytes
//!                    └─ else ───► lines: (`#labels …`), then chunk → cut at the last LF → queue
//! ```
//! **Memory.** A connection that waits holds no read buffer: bytes are read into a buffer of the thread when they are
//! there, and handled before anything is awaited. What stays are unfinished lines and unfinished frames; both are bounded
//! over all connections of a listener.
//!
//! **Back-pressure.** When the queue takes nothing (disk full, too much to be synced), nothing more is read, and the
//! kernel's buffers hold the clients. What had been read is kept and tried again with the same ids. Lines are given up
//! only when the node is stopping or cannot write for seconds, and that is logged and counted.
//!
//! **Too much to do.** What clients hear then is up to the queue's [guide](bucksaw_ingest::guide): it is asked when a
//! client comes, and says when one that is there should go. Nobody is cut off: batches that were read are acknowledged
//! before.
//!
//! **Shutdown.** Nothing is accepted any more but what had connected; each connection takes what is already there, sends
//! the acknowledgements that come within seconds, keeps its unfinished line marked as open, and closes.
//!
//! The queue writes to files within `append`, so these tasks want a runtime of their own, which answers nobody else.
//!
//! ```no_run
//! use std::sync::Arc;
//! use bucksaw_ingest::{Durability, Queue};
//! use bucksaw_sources::{Config, ConnectionSlots, Intake, Metrics, TcpIntake, serve};
//! # async fn run(queue: Arc<Queue>, metrics: Metrics, stop: tokio::sync::watch::Receiver<bool>) -> std::io::Result<()> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7651").await?;
//! let intake = Intake { queue, env: bucksaw_env::Env::real() };
//! let tcp = TcpIntake { intake, config: Config::default(), metrics, slots: ConnectionSlots::new(1_000) };
//! serve(listener, Durability::Fast, tcp, stop).await;
//! # Ok(()) }
//! ```
#![deny(clippy::indexing_slicing)]

mod acks;
mod config;
mod connection;
mod framed;
pub mod http;
mod http_refusal;
pub mod intake;
mod lines;
mod listener_state;
mod message_buffer;
mod metrics;
mod protocol;
mod redirects;
mod serve;
mod socket_reader;

pub use config::Config;
pub use intake::Intake;
pub use listener_state::{ConnectionSlots, TcpIntake};
pub use metrics::{ByDurability, Metrics};
pub use serve::serve;
