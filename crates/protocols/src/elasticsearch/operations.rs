//! The operations of a bulk body: a line with an action, and for most actions a line with a document.
//!
//! ```text
//!   {"create":{"_index":"logs-web"}}␊
//!   {"@timestamp":"2023-11-14T22:13:20Z","message":"hello"}␊
//!   {"delete":{"_index":"logs-web","_id":"7"}}␊
//! ```

use std::borrow::Cow;

use memchr::memchr;

use super::ElasticError;
use crate::json_members::{read_only_object, text};

/// The maximum length of an index's name, as in Elasticsearch.
const INDEX_BYTES_MAX: usize = 255;

/// What an action does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(super) enum BulkAction {
    Index,
    Create,
    Update,
    Delete,
}

impl BulkAction {
    /// The name in actions and replies.
    pub(super) fn name(self) -> &'static str {
        self.into()
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BulkOperation<'a> {
    pub(super) action: BulkAction,
    pub(super) index: Cow<'a, str>,
    /// Empty if the sender states none.
    pub(super) id: Cow<'a, str>,
    pub(super) routing: Cow<'a, str>,
    pub(super) pipeline: Cow<'a, str>,
    /// The document as sent; empty for `delete`.
    pub(super) document: &'a [u8],
}

/// Iterates over the operations of a body. After an error there are no more.
#[derive(Debug)]
pub(super) struct BulkOperations<'a> {
    rest: &'a [u8],
    /// The number of the last line.
    line: u64,
    default_index: &'a str,
    /// The last action line and its meaning; usually all are equal.
    last: Option<(&'a [u8], BulkOperation<'a>)>,
}

impl<'a> BulkOperations<'a> {
    /// The operations of `body`. Those that state no index are for `default_index`.
    pub(super) fn new(body: &'a [u8], default_index: &'a str) -> Self {
        Self { rest: body, line: 0, default_index, last: None }
    }

    fn next_line(&mut self) -> Option<&'a [u8]> {
        let at = memchr(b'\n', self.rest)?;
        let (line, rest) = self.rest.split_at(at);
        self.rest = rest.get(1..).unwrap_or_default();
        self.line += 1;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }

    fn read(&mut self, line: &'a [u8]) -> Result<BulkOperation<'a>, ElasticError> {
        let mut operation = match &self.last {
            Some((last, operation)) if *last == line => operation.clone(),
            _ => {
                let operation = self.read_action(line)?;
                self.last = Some((line, operation.clone()));
                operation
            }
        };
        if operation.action != BulkAction::Delete {
            let number = self.line;
            operation.document = self.next_line().ok_or_else(|| {
                ElasticError::illegal_argument(format!("The action on line [{number}] has no document behind it"))
            })?;
        }
        Ok(operation)
    }

    fn read_action(&self, line: &'a [u8]) -> Result<BulkOperation<'a>, ElasticError> {
        let malformed = |why: &dyn std::fmt::Display| {
            ElasticError::illegal_argument(format!("Malformed action/metadata line [{}], {why}", self.line))
        };
        let (mut found, mut unknown) = (None, None);
        let read = read_only_object(line, |name, value| match name.parse() {
            Ok(action) => found = Some((action, value)),
            Err(_) => unknown = Some(name.chars().take(40).collect::<String>()),
        });
        read.map_err(|error| malformed(&error))?;
        let (action, metadata) = match (found, unknown) {
            (Some(found), None) => found,
            (_, unknown) => {
                let unknown = unknown.unwrap_or_else(|| "END_OBJECT".to_owned());
                return Err(malformed(&format_args!(
                    "expected one of [create, delete, index, update] but found [{unknown}]"
                )));
            }
        };
        let mut operation = BulkOperation {
            action,
            index: Cow::Borrowed(self.default_index),
            id: Cow::default(),
            routing: Cow::default(),
            pipeline: Cow::default(),
            document: b"",
        };
        let read = read_only_object(metadata.as_bytes(), |name, value| match name {
            "_index" if value != "null" => operation.index = text(value),
            "_id" => operation.id = text(value),
            "routing" | "_routing" => operation.routing = text(value),
            "pipeline" => operation.pipeline = text(value),
            _ => {}
        });
        read.map_err(|error| malformed(&error))?;
        match operation.index.len() {
            0 => Err(ElasticError {
                status: 400,
                kind: "action_request_validation_exception",
                reason: format!("Validation Failed: line [{}]: index is missing;", self.line),
            }),
            1..=INDEX_BYTES_MAX => Ok(operation),
            length => Err(ElasticError {
                status: 400,
                kind: "invalid_index_name_exception",
                reason: format!("line [{}]: index name is too long, ({length} > {INDEX_BYTES_MAX})", self.line),
            }),
        }
    }
}

impl<'a> Iterator for BulkOperations<'a> {
    type Item = Result<BulkOperation<'a>, ElasticError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = self.next_line()?;
            if !line.is_empty() {
                let operation = self.read(line);
                if operation.is_err() {
                    self.rest = b"";
                }
                return Some(operation);
            }
        }
    }
}
