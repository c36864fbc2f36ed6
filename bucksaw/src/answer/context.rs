//! The records around one, in its stream.

use anyhow::Context as _;
use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;

use super::AnswerStats;
use crate::node_client::{self, NodeClient};

/// The records around one, oldest first, as JSON objects.
#[derive(Debug)]
pub(crate) struct RecordContext {
    pub(crate) records: Vec<Bytes>,
    pub(crate) stats: AnswerStats,
}

/// The answer of a node.
#[derive(serde::Deserialize)]
struct ContextDocument<'a> {
    #[serde(borrow)]
    records: Vec<&'a RawValue>,
    #[serde(default)]
    stats: Value,
}

/// The path of the call for the records around one.
pub(crate) fn context_path(id: &str, before: u64, after: u64) -> String {
    let (before, after) = (before.to_string(), after.to_string());
    node_client::path("/api/v1/context", &[("id", id), ("before", &before), ("after", &after)])
}

impl RecordContext {
    /// Fetches at most this number of records before and after one.
    pub(crate) async fn fetch(client: &NodeClient, id: &str, before: u64, after: u64) -> anyhow::Result<Self> {
        Self::parse(&client.get(&context_path(id, before, after)).await?)
    }

    /// Reads the answer of a node. One that has no end is incomplete.
    pub(crate) fn parse(answer: &Bytes) -> anyhow::Result<Self> {
        let document: ContextDocument<'_> =
            serde_json::from_slice(answer).context("the records around a match cannot be read")?;
        let records = document.records.iter().map(|object| Bytes::copy_from_slice(object.get().as_bytes())).collect();
        let stats = AnswerStats::from_stats(document.stats);
        Ok(Self { records, stats })
    }
}
