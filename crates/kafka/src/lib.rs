//! Reads topics of Kafka as a member of a consumer group, and appends each message to the queue as one record.
//!
//! ```text
//!   broker ─► librdkafka ─► Worker: poll ─► KafkaDecoder ─► ConsumedRecords: one frame per run of offsets ─► Queue::append
//!                              │                                  │ durability
//!                              └────── commit every interval ◄── offsets before which everything is stored
//! ```
//! **Ids** follow from cluster, topic, partition and offset ([`OffsetIds`]), times from the message alone. A message that is read
//! again, after a crash or by another node, gets the same id, which stores and answers drop. So a message may be read any
//! number of times, and an offset is committed only after the records before it have their durability.
//!
//! **Frames** hold records of one stream with consecutive ids, hence with consecutive offsets of one partition: a batch of a
//! partition with one stream is one frame. Where streams alternate from message to message, each message is a frame.
//!
//! **Back-pressure.** While the queue refuses records, the partitions are paused and the same frames are appended again.
//! librdkafka is still polled, so the group keeps the member.
//!
//! **Memory.** librdkafka holds fetched messages up to `queued.max.messages.kbytes` for each worker, and a worker about 1 MiB of
//! text and a message.
//!
//! **Failures.** Whatever a broker does, a worker goes on: it repeats for ever, with limited log lines, and metrics say so. Only
//! settings that cannot work are errors of the start.
//!
//! Each worker is a thread, because librdkafka calls back from a blocking poll, and has another thread that commits.
#![deny(clippy::indexing_slicing)]

mod client_settings;
mod commit_tracker;
mod committer;
mod config;
mod consumed_records;
mod frame_batch;
mod group_events;
mod message_sink;
mod metrics;
mod monitor;
mod offset_ids;
mod options;
mod partition_table;
mod source;
mod worker;

pub use config::{Config, StartOffset};
pub use metrics::Metrics;
pub use monitor::{KafkaMonitor, KafkaStatus, TopicStatus};
pub use offset_ids::OffsetIds;
pub use options::{ClientOption, InvalidOption};
pub use source::{KafkaSource, KafkaStartError};

#[cfg(test)]
mod tests;
