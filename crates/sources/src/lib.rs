//! Listeners and the intake of records: lines, the framed protocol, syslog, GELF and Fluentd over TCP or UDP, bodies over HTTP.
//!
//! A TCP listener has one durability and accepts both protocols; the first bytes of a connection select one. A connection is
//! one task, one stream and, for lines, one producer.
//!
//! ```text
//!                    ┌─ magic ──► framed: hello, reply, then batch → intake → acknowledgement
//!   accept ─► first bytes
//!                    └─ other ──► lines: (`#labels …`), then chunk → split at the last LF → intake
//! ```
//! [`intake`] assigns ids and appends the records of every source; [`http`] ingests request bodies.
//!
//! **Memory.** An idle connection holds no read buffer: bytes are read into a buffer of the thread and processed before the next
//! await. Unfinished lines and frames remain; both are bounded over all connections of a listener.
//!
//! **Back-pressure.** While the queue refuses records (full disk, too many unsynced records), connections are not read from.
//! A refused chunk is kept and appended again with the same ids. Lines are dropped only at shutdown or after seconds of write
//! errors; that is logged and counted.
//!
//! **Clients.** On a node that authenticates, a connection presents a token or a certificate, or it is closed. What it sends gets the
//! labels of its credential. It ends when the credential does, and is read no faster than the credential allows.
//!
//! **Load.** The [load shedder](bucksaw_steering) decides which clients are accepted, redirected or
//! disconnected. Batches that were read are acknowledged before a disconnect.
//!
//! **Shutdown.** The listener accepts only connections that are already established. Each connection processes the bytes that
//! have arrived, sends the acknowledgements of the next seconds, appends its unfinished line with the flag `UNTERMINATED`, and
//! closes.
//!
//! **TLS.** With it the handshake is the first thing that the task of a connection does, within limits of time and number. Above
//! it the protocols are the same: they read and write a [`Socket`].
//!
//! Appends write to files, so these tasks need a runtime of their own.
//!
//! ```no_run
//! use std::sync::Arc;
//! use bucksaw_ingest::{Durability, Queue};
//! use bucksaw_sources::{Config, ConnectionSlots, ListenerSetup, Intake, Metrics, TcpIntake, UnfinishedBytes, serve};
//! # async fn run(queue: Arc<Queue>, shedder: Arc<bucksaw_steering::LoadShedder>, metrics: Metrics, stop: tokio::sync::watch::Receiver<bool>) -> std::io::Result<()> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7651").await?;
//! let intake = Intake::new(queue, bucksaw_env::Env::real());
//! let (config, slots) = (Config::default(), ConnectionSlots::new(1_000));
//! let sender_memory = UnfinishedBytes::new(&config);
//! let agents = Arc::default();
//! let (authenticator, audit, waiting_senders) = (None, None, Default::default());
//! let tcp = TcpIntake { intake, shedder, config, metrics, slots, sender_memory, agents, authenticator, audit, waiting_senders };
//! serve(listener, ListenerSetup::lines(Durability::Fast), tcp, stop).await;
//! # Ok(()) }
//! ```
#![deny(clippy::indexing_slicing)]

mod acceptor;
mod acks;
mod agents;
mod append_retry;
mod audit;
mod client_check;
mod config;
mod connection;
mod connection_peer;
mod events;
mod fluent;
mod framed;
mod handshake_slots;
pub mod http;
mod http_refusal;
pub mod intake;
mod lines;
mod listener_setup;
mod listener_state;
mod message_buffer;
mod metrics;
mod one_way;
mod plaintext_refusal;
mod protocol;
mod redirects;
mod serve;
mod shared_key;
mod socket;
mod socket_reader;
mod stop_watch;
mod tls_handshake;

pub use acceptor::{AcceptedConnection, Acceptor};
pub use agents::{AgentRegistry, KnownAgent};
pub use audit::{AuditEntry, AuditOutcome, AuditTrail};
pub use config::Config;
pub use connection_peer::{ConnectionPeer, alternative_names};
pub use events::{DatagramSocket, serve_datagrams};
pub use fluent::{WaitingSender, WaitingSenders, serve_heartbeats};
pub use handshake_slots::HandshakeSlots;
pub use intake::Intake;
pub use listener_setup::{ListenerProtocol, ListenerSetup};
pub use listener_state::{ConnectionSlots, TcpIntake, UnfinishedBytes};
pub use metrics::Metrics;
pub use serve::serve;
pub use shared_key::SharedKey;
pub use socket::{Socket, TlsSocket};
pub use tls_handshake::{ListenerTls, PendingHandshake};
