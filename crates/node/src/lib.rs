//! A node put together: what goes on in it as time goes by, and which calls of other nodes it answers.
//!
//! ```text
//!   commit   syncs what waits for it, in groups                      (queue)
//!   tick     closes old segments, removes committed ones             (queue)
//!   pull     queues of all nodes ──► store, and copies on others     (store)
//!   tidy     compaction, retention                                   (store)
//!   restore  copies that are missing, from what is on the store      (store)
//!   tell     what this node is, has and has to do ──► gossip         (cluster)
//!            what clients are told when others have less to do       (queue)
//!   watch    nodes that are gone lose what they had reserved         (cluster)
//! ```
//! The same code runs on a real machine and in a simulation: all that is not deterministic comes in through the environment. Who
//! opens queue, store and cluster, and listens to clients, is whoever starts it.

mod facts;
pub mod load_control;
mod node;
mod node_tasks;
mod peers;

pub use node::{FORMATS, Node, Roles};
pub use node_tasks::NodeTasks;
