//! Decodes arbitrary bytes, for the fuzzer.

use std::sync::Arc;

use bucksaw_rpc::MessageReader;

use super::batch::{BatchSlice, RecordBatch};
use super::cells;
use super::message::MessageKind;
use super::replica_states;
use super::request::{ReplyStatus, ScatterRequest};
use super::sent_streams;

/// Decodes bytes as each format that other nodes send. Must not panic.
pub fn decode_all_formats(bytes: &[u8]) {
    let mut messages = MessageReader::default();
    messages.push(bytes);
    while let Ok(Some(_)) = messages.next_message::<MessageKind>() {}
    let _ = ScatterRequest::decode(bytes).map(|request| request.request());
    let _ = ReplyStatus::decode(bytes);
    let _ = cells::decode(bytes, 1_000);
    let _ = sent_streams::decode(bytes);
    let _ = replica_states::decode(bytes);
    if let Ok(batch) = RecordBatch::decode(&bytes.to_vec().into()) {
        let batch = Arc::new(batch);
        let all = BatchSlice::new(&batch, 0, batch.len());
        assert_eq!(all.records().count(), batch.len(), "every decoded record is readable");
        let mut records = 0;
        all.visit_runs(&mut |run| records += run.records);
        assert_eq!(records, batch.len(), "runs cover all records");
    }
}
