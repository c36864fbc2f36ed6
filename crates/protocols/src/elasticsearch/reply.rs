//! The reply to a bulk request: the status of each operation, in order.

use super::ElasticError;
use super::operations::BulkOperation;

/// What became of the operations of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BulkReply {
    /// The elements of `items`, with a comma before each but the first.
    items: Vec<u8>,
    accepted: u64,
    refused: u64,
}

impl BulkReply {
    /// The number of documents that the sink took.
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// The number of operations with an error.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The body of the answer with status `200`. `took_ms` is the duration of the request in milliseconds.
    pub fn body(&self, took_ms: u64) -> Vec<u8> {
        // Fluent Bit searches for `"errors":false,"items":[` as it stands here before it parses.
        let errors = self.refused > 0;
        let mut body = Vec::with_capacity(self.items.len() + 60);
        body.extend_from_slice(format!(r#"{{"took":{took_ms},"errors":{errors},"items":["#).as_bytes());
        body.extend_from_slice(&self.items);
        body.extend_from_slice(b"]}");
        body
    }

    pub(super) fn push_created(&mut self, operation: &BulkOperation<'_>) {
        self.accepted += 1;
        self.push(operation, r#","_version":1,"result":"created","status":201}}"#);
    }

    pub(super) fn push_error(&mut self, operation: &BulkOperation<'_>, error: &ElasticError) {
        self.refused += 1;
        self.push(operation, &format!(r#","status":{},"error":{}}}}}"#, error.status, error.cause()));
    }

    fn push(&mut self, operation: &BulkOperation<'_>, end: &str) {
        if !self.items.is_empty() {
            self.items.push(b',');
        }
        self.items.extend_from_slice(b"{\"");
        self.items.extend_from_slice(operation.action.name().as_bytes());
        self.items.extend_from_slice(b"\":{\"_index\":");
        self.push_string(&operation.index);
        if !operation.id.is_empty() {
            self.items.extend_from_slice(b",\"_id\":");
            self.push_string(&operation.id);
        }
        self.items.extend_from_slice(end.as_bytes());
    }

    fn push_string(&mut self, text: &str) {
        // A `Vec` takes everything, and text is valid JSON.
        let _ = serde_json::to_writer(&mut self.items, text);
    }
}
