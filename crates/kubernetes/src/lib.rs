//! The pods of one Kubernetes node: their labels and owners, kept up to date by watching the API server.
//!
//! ```text
//!   API server ─► connection ─► event lines ─► watch events ─► pod cache ◄─ asked by the reader of log files
//!                 list, watch   bounded         metadata only   bounded
//! ```
//! [`watch_pods`] lists the pods of the node once, and then receives their changes. It connects again after every error, so a
//! server that is away costs only the labels of new pods. [`PodDirectory`] is what the task and its users share; asking it never waits for
//! the network.
//!
//! Only the metadata of pods is requested. Whatever the server sends, memory is bounded: by [`EVENT_BYTES_MAX`] and
//! [`LIST_BYTES_MAX`] while it is received, and by the limits of [`PodMetadata`] and [`PodCache`] afterwards.
#![deny(clippy::indexing_slicing)]

mod api_address;
mod api_connection;
mod config;
mod credentials;
mod pod_cache;
mod pod_directory;
mod pod_list;
mod pod_metadata;
mod retry_delay;
mod server_error;
mod watch_event;
mod watch_lines;
mod watcher;

pub use api_address::{ApiAddress, InvalidApiAddress};
pub use config::{CREDENTIALS_DIR, KubernetesConfig, WatchTiming};
pub use pod_cache::{CacheLimits, PodCache};
pub use pod_directory::{KubernetesStatus, PodDirectory};
pub use pod_list::{LIST_BYTES_MAX, PodPage};
pub use pod_metadata::{InvalidObject, PodMetadata, PodOwner};
pub use watch_event::WatchEvent;
pub use watch_lines::{EVENT_BYTES_MAX, WatchLines};
pub use watcher::watch_pods;
