//! A node assembled: its files, its place in the cluster, its tasks and the calls that it answers.
//!
//! [`Node::open`] is the only place that assembles a node; the program, the simulator and the tests of clusters use it.
//! [`Node::start`] starts the tasks:
//!
//! ```text
//!   commit     syncs unsynced records in groups                        (queue)
//!   tick       closes segments by age, removes committed ones          (queue)
//!   pull       fetches from the queues of all nodes, replicates        (store)
//!   maintain   compaction, retention                                   (store)
//!   repair     re-replicates under-replicated records                  (store)
//!   publish    facts of this node ──► gossip                           (cluster)
//!              load ──► redirects of clients                           (steering)
//!   watch      releases the leases of departed nodes                   (cluster)
//! ```
//! [`NodeTasks::stop`] stops a node in order. Everything nondeterministic comes from the [`Environment`], so the same code runs
//! on a real machine and in the simulator.
//!
//! The crate opens no listeners for clients and holds no lock on the data directory; its caller does.

mod calls;
mod config;
mod facts;
mod node;
mod node_tasks;
mod peers;

pub use bucksaw_cluster::Roles;
pub use config::{Config, Environment, Metrics};
pub use node::{FORMATS, Node, NodeOpenError, OpenStore};
pub use node_tasks::{NodeTasks, StopOutcome};
