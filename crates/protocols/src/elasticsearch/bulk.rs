//! Each document of a bulk body becomes one event.

use bucksaw_record::Labels;

use super::document::DocumentMembers;
use super::operations::{BulkAction, BulkOperation, BulkOperations};
use super::{BulkReply, ElasticError};
use crate::json_members::text;
use crate::stream_labels::{HOST_NAME, SERVICE_NAME, StreamLabels};
use crate::{AttributeList, Event, EventSink};

/// Decodes bulk bodies. Keeps the labels of earlier documents, at most 1 MiB of them.
#[derive(Debug)]
pub struct BulkDecoder {
    labels: StreamLabels,
    attributes: AttributeList,
}

impl BulkDecoder {
    /// The maximum number of operations of a request. It bounds the reply, which is longer than a body of many short
    /// operations.
    pub const OPERATIONS_MAX: usize = 100_000;

    /// A decoder whose events all get `labels` too, which prevail over what documents state.
    pub fn new(labels: &Labels) -> Self {
        Self { labels: StreamLabels::new(labels), attributes: AttributeList::default() }
    }

    /// Decodes a whole decompressed body. `default_index` is the index of the path, or empty.
    ///
    /// The actions of all lines are checked first, so a body with a wrong one has no effect. An operation that is refused
    /// for itself, because its document is wrong or because it would change one, has an error in the reply, and the others are
    /// taken.
    ///
    /// # Errors
    /// [`ElasticError`] for the request as a whole. Nothing was passed to the sink.
    pub fn decode(
        &mut self,
        body: &[u8],
        default_index: &str,
        sink: &mut dyn EventSink,
    ) -> Result<BulkReply, ElasticError> {
        check(body, default_index)?;
        let mut reply = BulkReply::default();
        for operation in BulkOperations::new(body, default_index) {
            let operation = operation?;
            match self.take(&operation, sink) {
                Ok(()) => reply.push_created(&operation),
                Err(error) => reply.push_error(&operation, &error),
            }
        }
        Ok(reply)
    }

    fn take(&mut self, operation: &BulkOperation<'_>, sink: &mut dyn EventSink) -> Result<(), ElasticError> {
        if matches!(operation.action, BulkAction::Update | BulkAction::Delete) {
            let name = operation.action.name();
            let reason = format!("[{name}] is not supported, as records are never changed: use [create] or [index]");
            return Err(ElasticError::illegal_argument(reason));
        }
        let members = DocumentMembers::read(operation.document).map_err(|error| ElasticError {
            status: 400,
            kind: "document_parsing_exception",
            reason: format!("failed to parse: {error}"),
        })?;
        self.attributes.clear();
        self.labels.clear();
        self.labels.push("index", &operation.index, &mut self.attributes);
        self.labels.push(HOST_NAME, &text(members.host), &mut self.attributes);
        self.labels.push(SERVICE_NAME, &text(members.service), &mut self.attributes);
        let stated = [("_id", &operation.id), ("_routing", &operation.routing), ("pipeline", &operation.pipeline)];
        for (name, value) in stated.into_iter().filter(|(_, value)| !value.is_empty()) {
            self.attributes.push(name, value.as_bytes());
        }
        let event = Event { time: members.time, line: operation.document, attributes: &self.attributes };
        let taken = sink.push(&self.labels.get(), &event);
        taken.map_err(|error| ElasticError::illegal_argument(error.to_string()))
    }
}

/// Checks for all errors for which Elasticsearch refuses a whole request.
fn check(body: &[u8], default_index: &str) -> Result<(), ElasticError> {
    if body.is_empty() {
        let reason = "request body is required".to_owned();
        return Err(ElasticError { status: 400, kind: "parse_exception", reason });
    }
    if !body.ends_with(b"\n") {
        return Err(ElasticError::illegal_argument("The bulk request must be terminated by a newline [\\n]"));
    }
    let mut count = 0;
    for operation in BulkOperations::new(body, default_index) {
        operation?;
        count += 1;
        if count > BulkDecoder::OPERATIONS_MAX {
            let max = BulkDecoder::OPERATIONS_MAX;
            let reason = format!("a bulk request may have {max} operations: send several requests");
            return Err(ElasticError { status: 413, kind: "content_too_long_exception", reason });
        }
    }
    Ok(())
}
