//! Answers of a node: the stream in which they arrive, their records and their statistics.

mod context;
mod reader;
mod record;
mod stats;
mod stream;

pub(crate) use context::{RecordContext, context_path};
pub(crate) use reader::{AnswerItem, AnswerReader};
pub(crate) use record::NodeRecord;
pub(crate) use stats::AnswerStats;
pub(crate) use stream::{AnswerStreamReader, MEDIA_TYPE, Message};
